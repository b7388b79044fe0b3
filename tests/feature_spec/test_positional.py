"""The positional layout, described by a specification."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import open_artifact
from components.errors import KfrecError
from components.feature_spec import Vocabulary, load_feature_spec
from components.feature_spec.__main__ import main
from components.feature_spec.positional import read_positional

NAMES = ["clicked", "age", "movie", "watched", "skipped"]
CARDINALITIES = [{"name": "age", "value": 99}, {"name": "movie", "value": 9}]


def folder(path: Path, body: Any = None, names: list[str] = NAMES) -> Path:
    columns: dict[str, Any] = {name: [[1]] if name in NAMES[-2:] else [1] for name in names}
    rows = pa.table(columns)
    for split in ("train", "test"):
        (path / split).mkdir(parents=True)
        pq.write_table(rows, path / split / "part.0.parquet")
    text = body if isinstance(body, str) else json.dumps(body or {"cardinalities": CARDINALITIES, "encoding": {"a": 1}})
    (path / "metadata.json").write_text(text)
    return path


def test_the_command_describes_the_columns_and_accepts_the_folder(tmp_path: Path) -> None:
    mine = folder(tmp_path / "mine")
    (mine / "vocabulary").mkdir()
    (mine / "vocabulary" / "movie.parquet").write_bytes(b"ids and values")
    command = [sys.executable, "-m", "components.feature_spec", str(mine), "--number_of_user_features", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{mine}: 5 features described, 5 files accepted\n"
    assert {entry.path for entry in open_artifact(mine).files} >= {"feature_spec.yaml", "train/part.0.parquet"}
    spec = load_feature_spec(mine)
    assert [(f.name, f.dtype, f.cardinality, f.length) for f in spec.features.values()] == [
        ("label", "bool", None, None),
        ("age", "int64", 99, None),
        ("movie_trgt", "int64", 9, None),
        ("movie_pos", "int64", 9, 0),
        ("movie_neg", "int64", 9, 0),
    ]
    assert [spec.column(name) for name in spec.features] == NAMES
    assert spec.vocabularies == (Vocabulary("movie", "vocabulary/movie.parquet", 2, tuple(list(spec.features)[2:])),)
    assert spec.metadata["encoding"] == {"a": 1}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", 'expected {"cardinalities": [{"name"'),
        ("[]", 'expected {"cardinalities": [{"name"'),
        ({"cardinalities": {"uid": 3}}, 'expected {"cardinalities": [{"name"'),
        ({"cardinalities": CARDINALITIES[:1]}, "leave no item features after number_of_user_features=1"),
        ({"cardinalities": [CARDINALITIES[1]] * 3}, "two features would be called movie_trgt"),
        ({"cardinalities": [{"name": "label", "value": 5}, *CARDINALITIES[1:]]}, "two features would be called label"),
        *(({"cardinalities": [{"name": "age", "value": wrong}, *CARDINALITIES[1:]]}, f"age has cardinality {wrong!r}")
          for wrong in (0, 7.5, "60", True, 10**12)),
    ],
)  # fmt: skip
def test_wrong_metadata_is_one_line(tmp_path: Path, body: Any, message: str) -> None:
    with pytest.raises(KfrecError, match=re.escape(message)) as raised:
        read_positional(folder(tmp_path, body), 1)
    assert str(raised.value).startswith(f"{tmp_path}/metadata.json: ") and "\n" not in str(raised.value)


def test_another_number_of_columns_is_explained_with_the_layout(tmp_path: Path) -> None:
    message = (
        "train: has 4 columns, but metadata.json and number_of_user_features=1 make 5 (1 label, 1 user_features, 1 "
        "target_item_features, 1 positive_history, 1 negative_history); correct one of them"
    )
    with pytest.raises(KfrecError, match=re.escape(message)):
        read_positional(folder(tmp_path, names=NAMES[:-1]), 1)


def test_a_folder_without_samples_or_metadata_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"metadata\.json: missing"):
        read_positional(tmp_path, 1)
    (folder(tmp_path / "a") / "train" / "part.0.parquet").unlink()
    with pytest.raises(KfrecError, match=r"train: no \*\.parquet files"):
        read_positional(tmp_path / "a", 1)


def test_records_need_the_length_of_a_list(tmp_path: Path) -> None:
    (tmp_path / "feature_spec.yaml").write_text(
        "feature_spec: {a: {dimensions: [null]}}\nsource_spec: {train: [{type: tfrecord, features: [a], files: [b]}]}\n"
        "channel_spec: {}\n"
    )
    with pytest.raises(KfrecError, match=r"feature a has dimensions \[null\]; give one length"):
        load_feature_spec(tmp_path)


def test_a_specification_of_ones_own_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = folder(tmp_path / "mine")
    monkeypatch.setattr(sys, "argv", ["feature_spec", str(mine)])
    assert [main(), main()] == [0, 0]  # what it wrote itself is no obstacle
    (mine / "feature_spec.yaml").write_text("# by hand")
    assert main() == 2
    assert "feature_spec.yaml: is there already and says something else" in capsys.readouterr().err
    assert (mine / "feature_spec.yaml").read_text() == "# by hand"
