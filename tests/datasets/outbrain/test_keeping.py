"""New displays with the statistics of an earlier output."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt, open_artifact
from components.errors import KfrecError
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run as tfrecord
from tests.datasets.outbrain.raw import preprocess, random_tables, raw_folder, samples

OLD, NEW = random_tables(displays=300, seed=1), random_tables(displays=200, seed=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keeping")
    preprocess(raw_folder(folder / "old-raw", OLD), folder / "old")
    raw_folder(folder / "new-raw", OLD, clicks_train=NEW["clicks_train"], events=NEW["events"])
    preprocess(folder / "new-raw", folder / "new", workflow=str(folder / "old"))
    return folder


def test_the_output_carries_the_same_statistics_on(folder: Path) -> None:
    files = sorted(path.name for path in (folder / "old" / "vocabulary").iterdir())
    assert len(files) == 7
    for name in files:
        assert (folder / "new" / "vocabulary" / name).read_bytes() == (
            folder / "old" / "vocabulary" / name
        ).read_bytes()


def test_the_same_displays_give_the_same_bytes_with_kept_statistics(folder: Path, tmp_path: Path) -> None:
    preprocess(folder / "old-raw", tmp_path / "again", workflow=str(folder / "old"))
    for part in ("train", "test", "vocabulary"):
        for path in sorted((folder / "old" / part).iterdir()):
            assert (tmp_path / "again" / part / path.name).read_bytes() == path.read_bytes()


def test_rates_of_new_test_samples_are_those_of_the_old_training_samples(folder: Path) -> None:
    counts = pq.read_table(folder / "old" / "vocabulary" / "clicks_by_ad_id.parquet").to_pandas().set_index("id")
    shown = counts.filter(like="shown_").sum(axis=1)
    rate = (counts.filter(like="clicked_").sum(axis=1) / shown).where(shown >= 5, 0.0)
    new = samples(folder / "new", "test")
    np.testing.assert_allclose(new["ad_id_ctr"], (new["ad_id"] - 1).map(rate).fillna(0), rtol=1e-6)


@pytest.mark.parametrize("place", ["records", "moved"])
def test_records_and_copies_keep_them_too(folder: Path, tmp_path: Path, place: str) -> None:
    tfrecord(TfrecordParameters(workers=1), parquet=folder / "old", tfrecord=tmp_path / "records")
    shutil.copytree(folder / "old", tmp_path / "moved")
    preprocess(folder / "new-raw", tmp_path / "again", workflow=str(tmp_path / place))
    assert open_artifact(tmp_path / "again").digest == open_artifact(folder / "new").digest


def test_too_many_unknown_ads_fit_new_statistics(folder: Path, tmp_path: Path) -> None:
    header, *lines = NEW["clicks_train"].splitlines()
    fields = [line.split(",") for line in lines]
    other = "".join(f"{display},{int(ad) + 1000},{clicked}\n" for display, ad, clicked in fields)
    raw = raw_folder(tmp_path / "raw", OLD, clicks_train=f"{header}\n{other}", events=NEW["events"])
    preprocess(raw, tmp_path / "fitted")
    preprocess(raw, tmp_path / "refitted", workflow=str(folder / "old"), out_of_vocabulary_limit=0.5)
    for split in ("train", "test"):
        pd.testing.assert_frame_equal(samples(tmp_path / "refitted", split), samples(tmp_path / "fitted", split))
    assert "vocabulary: refitted" in (tmp_path / "refitted" / "feature_spec.yaml").read_text()


def error_of(folder: Path, output: Path, place: Path, **parameters: object) -> str:
    with pytest.raises(KfrecError) as caught:
        preprocess(folder / "new-raw", output, workflow=str(place), **parameters)
    assert not output.exists()
    return str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("seed", 7), ("test_share", 0.3), ("rate_folds", 1)])
def test_another_division_of_displays_is_refused(folder: Path, tmp_path: Path, name: str, value: float) -> None:
    message = error_of(folder, tmp_path / "out", folder / "old", **{name: value})
    assert message.startswith(f"parameter {name}={value} differs from {name}=")
    assert "samples would see their own clicks" in message


def test_an_earlier_last_training_day_is_refused_and_a_later_one_is_not(folder: Path, tmp_path: Path) -> None:
    assert "last_training_day=9 is below 10" in error_of(folder, tmp_path / "out", folder / "old", last_training_day=9)
    preprocess(folder / "new-raw", tmp_path / "later", workflow=str(folder / "old"), last_training_day=11)


def test_a_folder_without_statistics_is_named(folder: Path, tmp_path: Path) -> None:
    message = error_of(folder, tmp_path / "out", folder / "old-raw")
    assert "no vocabulary/statistics.parquet here; workflow must name an earlier output" in message


DAMAGES = {
    "junk": lambda path: path.write_bytes(b"junk"),
    "other columns": lambda path: pq.write_table(pa.table({"a": [1]}), path),
    "ids twice": lambda path: pq.write_table(pa.concat_tables([pq.read_table(path)] * 2), path),
}


@pytest.mark.parametrize("wrong", DAMAGES)
@pytest.mark.parametrize("name", ["statistics", "clicks_by_ad_id"])
def test_damaged_statistics_are_named(folder: Path, tmp_path: Path, wrong: str, name: str) -> None:
    shutil.copytree(folder / "old", tmp_path / "old")
    DAMAGES[wrong](tmp_path / "old" / "vocabulary" / f"{name}.parquet")
    adopt(tmp_path / "old")
    message = error_of(folder, tmp_path / "out", tmp_path / "old")
    assert f"{name}.parquet: not statistics that this kfrec writes" in message
