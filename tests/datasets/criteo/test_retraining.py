"""New days are encoded with the vocabulary of an earlier output, unless too many frequent values are unknown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt
from components.datasets.criteo.columns import CATEGORICAL
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from tests.datasets.amazon_reviews.raw import samples
from tests.datasets.criteo.raw import (
    assert_samples,
    expected_samples,
    expected_vocabularies,
    preprocess,
    random_lines,
    raw_folder,
    vocabulary,
)

OLD, NEW = random_lines(100, seed=1, values=10), random_lines(100, seed=2, values=20)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("earlier")
    preprocess(raw_folder(folder / "raw", train=OLD), folder / "out", frequency_threshold=3)
    return folder / "out"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return raw_folder(tmp_path / "raw", train=NEW)


def encoding(output: Path) -> dict:
    return dict(load_feature_spec(output).metadata["encoding"])


def test_a_kept_vocabulary_gives_its_ids_and_0_for_unknown_values(earlier: Path, raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "out", workflow=str(earlier), frequency_threshold=3)
    known = expected_vocabularies(OLD[:90], 3)
    assert [vocabulary(tmp_path / "out", name) for name in CATEGORICAL] == known
    assert_samples(samples(tmp_path / "out", "train"), expected_samples(NEW[:90], known))
    assert encoding(tmp_path / "out")["vocabulary"] == "kept"


def test_the_rate_counts_values_that_a_new_vocabulary_would_have(earlier: Path, raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "out", workflow=str(earlier), frequency_threshold=3)
    old, new = expected_vocabularies(OLD[:90], 3), expected_vocabularies(NEW[:90], 3)
    fields = [(line[14 + column], column) for line in NEW[:90] for column in range(26) if line[14 + column]]
    lacking = sum(value in new[column] and value not in old[column] for value, column in fields)
    assert 0 < lacking < len(fields)
    assert encoding(tmp_path / "out")["out_of_vocabulary_rate"] == pytest.approx(lacking / len(fields))


def test_above_the_limit_a_new_vocabulary_is_fitted(earlier: Path, raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "fresh", frequency_threshold=3)
    preprocess(raw, tmp_path / "out", workflow=str(earlier), frequency_threshold=3, out_of_vocabulary_limit=0.001)
    assert_samples(samples(tmp_path / "out", "train"), samples(tmp_path / "fresh", "train"))
    assert encoding(tmp_path / "out")["vocabulary"] == "refitted"


def broken(folder: Path, earlier: Path, **columns: list) -> Path:
    """A copy of the earlier output with another vocabulary of cat_5."""
    copy = shutil.copytree(earlier, folder / "broken")
    pq.write_table(pa.table(columns), copy / "vocabulary" / "cat_5.parquet")
    (copy / "_manifest.json").unlink()
    adopt(copy)
    return copy


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1], "name": ["00000001"]}, "missing or not a vocabulary"),
        ({"id": [1], "value": ["one"]}, "missing or not a vocabulary"),
        ({"id": [1], "value": ["0000000g"]}, "missing or not a vocabulary"),
        ({"id": [1, 2], "value": ["00000001", "00000001"]}, "a value is missing or duplicated"),
        ({"id": [3], "value": ["00000001"]}, "its ids are not consecutive from 1"),
    ],
)
def test_a_vocabulary_of_another_kind_is_named(
    tmp_path: Path, earlier: Path, raw: Path, columns: dict, message: str
) -> None:
    place = broken(tmp_path, earlier, **columns)
    with pytest.raises(KfrecError, match=rf"cat_5.parquet: {message}"):
        preprocess(raw, tmp_path / "out", workflow=str(place))


def test_a_folder_without_a_vocabulary_is_named(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="no vocabulary here; workflow must name an earlier output"):
        preprocess(raw, tmp_path / "out", workflow=str(raw))
