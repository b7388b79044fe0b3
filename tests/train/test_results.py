from __future__ import annotations

from pathlib import Path

from components.artifacts import adopt
from components.feature_spec import load_feature_spec
from components.train.results import copy_data_description
from tests.train.dataset import write_dataset


def test_the_model_gets_the_vocabulary_that_the_manifest_lists(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", train=10, test=10)
    (data / "vocabulary").mkdir()
    (data / "vocabulary" / "uid.parquet").write_bytes(b"ids and values")
    adopt(data)
    (data / "vocabulary" / "more.parquet").write_bytes(b"of nothing")
    (tmp_path / "model").mkdir()
    copy_data_description(load_feature_spec(data), "feature_spec.yaml", tmp_path / "model")
    assert [path.name for path in (tmp_path / "model" / "vocabulary").iterdir()] == ["uid.parquet"]
    assert load_feature_spec(tmp_path / "model").features == load_feature_spec(data).features
