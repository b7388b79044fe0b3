"""New data with an old vocabulary."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from tests.datasets.amazon_reviews.raw import named, preprocess, raw_folder, samples, vocabulary

OLD = [("ann", "i1", 1), ("ann", "i2", 2), ("ann", "i3", 3)]
NEW = [
    *(("ann", item, time) for time, item in enumerate(("i2", "new1", "i3", "i1"))),
    *(("eve", item, time) for time, item in enumerate(("i1", "new2", "i2"))),
    *(("fay", item, time) for time, item in enumerate(("i3", "i3", "i1"))),
]
CATEGORIES = {"i1": "x", "i2": "x", "i3": "y", "new1": "x", "new2": "unheard of"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reencoding")
    preprocess(raw_folder(folder / "old-raw", OLD, CATEGORIES), folder / "old")
    # What is encoded with must not depend on where it was made.
    shutil.copytree(folder / "old", folder / "moved")
    raw = raw_folder(folder / "new-raw", NEW, CATEGORIES)
    preprocess(raw, folder / "new", workflow=str(folder / "moved"))
    return folder


def test_known_items_keep_their_ids_and_unseen_ones_share_one(folder: Path) -> None:
    ann = next(row for row in named(folder / "new", "test") if row["uid"] == "ann")
    assert (ann["item_sequence"], ann["item"]) == ([None, "i2", "?", "i3"], "i1")
    assert vocabulary(folder / "new", "item") == vocabulary(folder / "old", "item")


def test_unseen_users_share_an_id_but_not_a_history(folder: Path) -> None:
    others = [row for row in samples(folder / "new", "test") if row["uid"] == 2 and row["label"] == 1]
    assert len(others) == 2
    assert len({tuple(row["item_sequence"]) for row in others}) == 2


def test_an_unseen_category_is_out_of_vocabulary(folder: Path) -> None:
    eve = next(row for row in named(folder / "new", "test") if row["uid"] == "?" and "?" in row["item_sequence"])
    assert eve["cat_sequence"] == [None, None, "x", "?"]


def test_cardinalities_stay_those_of_the_old_vocabulary(folder: Path) -> None:
    old, new = (load_feature_spec(folder / name) for name in ("old", "new"))
    assert old.features == new.features


def test_the_output_carries_the_workflow_on(folder: Path) -> None:
    preprocess(folder / "new-raw", folder / "again", workflow=str(folder / "new"))
    assert samples(folder / "again", "train") == samples(folder / "new", "train")


def refused(folder: Path, output: Path, workflow: Path) -> str:
    with pytest.raises(KfrecError) as caught:
        preprocess(folder / "new-raw", output, workflow=str(workflow))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_without_a_vocabulary_is_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert f"{tmp_path}/empty: no vocabulary here; workflow must name" in refused(
        folder, tmp_path / "parquet", tmp_path / "empty"
    )


class Planted:
    """Unpickling one leaves a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


def test_a_pickled_workflow_is_refused_and_never_unpickled(folder: Path, tmp_path: Path) -> None:
    old = tmp_path / "old" / "workflow"
    old.mkdir(parents=True)
    (old / "workflow.pkl").write_bytes(pickle.dumps(Planted(tmp_path / "ran")))
    (old / "metadata.json").write_text("{}")
    message = refused(folder, tmp_path / "parquet", old)
    assert "no vocabulary here" in message
    assert not (tmp_path / "ran").exists()


def test_an_output_of_an_earlier_kfrec_is_read_by_its_vocabulary(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "old" / "vocabulary", tmp_path / "old" / "vocabulary")
    (tmp_path / "old" / "workflow").mkdir()
    (tmp_path / "old" / "workflow" / "workflow.pkl").write_bytes(pickle.dumps(Planted(tmp_path / "ran")))
    preprocess(folder / "new-raw", tmp_path / "parquet", workflow=str(tmp_path / "old"))
    assert samples(tmp_path / "parquet", "train") == samples(folder / "new", "train")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", ["{}", "not JSON"])
def test_another_workflow_than_this_one_is_named(folder: Path, tmp_path: Path, text: str) -> None:
    shutil.copytree(folder / "old" / "vocabulary", tmp_path / "old" / "vocabulary")
    (tmp_path / "old" / "workflow.json").write_text(text)
    message = refused(folder, tmp_path / "parquet", tmp_path / "old")
    assert "workflow.json: describes a workflow that this kfrec does not support" in message


def test_the_output_holds_no_pickle(folder: Path) -> None:
    files = [path.relative_to(folder / "old") for path in (folder / "old").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".parquet", ".yaml"}


def test_an_unlisted_vocabulary_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "old" / "train", tmp_path / "mine" / "train")
    adopt(tmp_path / "mine")
    shutil.copytree(folder / "old" / "vocabulary", tmp_path / "mine" / "vocabulary")
    message = refused(folder, tmp_path / "parquet", tmp_path / "mine")
    assert "vocabulary/uid.parquet: not listed in _manifest.json" in message


def test_a_vocabulary_with_a_value_twice_is_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "old" / "vocabulary", tmp_path / "vocabulary")
    twice = pa.table({"id": pa.array([3, 4], pa.int32()), "value": ["i1", "i1"]})
    pq.write_table(twice, tmp_path / "vocabulary" / "item.parquet")
    assert "item.parquet: a value is missing or duplicated" in refused(folder, tmp_path / "parquet", tmp_path)


def test_a_vocabulary_alone_encodes_as_its_workflow_does(folder: Path, tmp_path: Path) -> None:
    # A registered model carries the vocabulary, not the workflow.
    (tmp_path / "model").mkdir()
    shutil.copytree(folder / "old" / "vocabulary", tmp_path / "model" / "vocabulary")
    preprocess(folder / "new-raw", tmp_path / "parquet", workflow=str(tmp_path / "model"))
    for split in ("train", "test"):
        assert samples(tmp_path / "parquet", split) == samples(folder / "new", split)
    assert vocabulary(tmp_path / "parquet", "item") == vocabulary(folder / "old", "item")


@pytest.mark.parametrize(("limit", "expected"), [(0.25, "kept"), (0.15, "refitted")])
def test_a_vocabulary_that_knows_too_little_is_fitted_anew(
    folder: Path, tmp_path: Path, limit: float, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two of ten reviews are of items that the old data did not have.
    preprocess(folder / "new-raw", tmp_path / "parquet", workflow=str(folder / "moved"), out_of_vocabulary_limit=limit)
    noted = load_feature_spec(tmp_path / "parquet").metadata["encoding"]
    unknown = noted.pop("filters")["unknown"]
    assert (unknown["events"], unknown["items"]) == ((2, 2) if expected == "kept" else (0, 0))
    del noted["sampling"], noted["reading"], noted["left_out"]
    assert noted == {"dataset": "amazon_reviews", "vocabulary": expected, "out_of_vocabulary_rate": 0.2, "raw_rows": 10}
    assert (
        f"20.00% of the events are of unknown items (limit {limit:.2%}): vocabulary {expected}"
        in capsys.readouterr().out
    )
    assert ("new1" in vocabulary(tmp_path / "parquet", "item").values()) == (expected == "refitted")


def test_a_vocabulary_of_something_else_is_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "old" / "vocabulary", tmp_path / "vocabulary")
    (tmp_path / "vocabulary" / "item.parquet").write_bytes(b"x")
    with pytest.raises(KfrecError, match=r"vocabulary/item\.parquet: missing or not a vocabulary"):
        preprocess(folder / "new-raw", tmp_path / "parquet", workflow=str(tmp_path))
