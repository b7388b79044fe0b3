"""New data with an old vocabulary."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from components.errors import KfrecError
from components.preprocess.nvtabular_quiet import ColumnSchema, Schema, Workflow, ops
from tests.preprocess.raw import named, preprocess, raw_folder, samples, vocabulary

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
    # The workflow must not depend on where it was made.
    shutil.copytree(folder / "old" / "workflow", folder / "moved")
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
    old, new = (json.loads((folder / name / "metadata.json").read_text()) for name in ("old", "new"))
    assert old["cardinalities"] == new["cardinalities"]


def test_the_output_carries_the_workflow_on(folder: Path) -> None:
    preprocess(folder / "new-raw", folder / "again", workflow=str(folder / "new" / "workflow"))
    assert samples(folder / "again", "train") == samples(folder / "new", "train")


def test_a_folder_that_is_no_workflow_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"workflow\.pkl: missing; workflow must name the workflow folder"):
        preprocess(folder / "new-raw", tmp_path / "parquet", workflow=str(tmp_path))


def test_a_damaged_workflow_is_named(folder: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(folder / "moved", tmp_path / "broken")
    (broken / "workflow.pkl").write_bytes(b"not a pickle")
    with pytest.raises(KfrecError, match="broken: not a workflow of this step"):
        preprocess(folder / "new-raw", tmp_path / "parquet", workflow=str(broken))


def test_a_workflow_for_other_columns_is_named(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder / "moved", tmp_path / "other")
    reviews = Schema([ColumnSchema("uid", dtype=str), ColumnSchema("user_key", dtype=int)])
    Workflow(reviews.column_names >> ops.Rename(postfix="_renamed")).fit_schema(reviews).save(other)
    with pytest.raises(KfrecError, match=r"other: encodes \['uid', 'user_key'\], not reviews"):
        preprocess(folder / "new-raw", tmp_path / "parquet", workflow=str(other))


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
    noted = json.loads((tmp_path / "parquet" / "metadata.json").read_text())["encoding"]
    assert noted == {"vocabulary": expected, "out_of_vocabulary_rate": 0.2, "raw_reviews": 10}
    assert (
        f"20.00% of the reviews are of unknown items (limit {limit:.2%}): vocabulary {expected}"
        in capsys.readouterr().out
    )
    assert ("new1" in vocabulary(tmp_path / "parquet", "item").values()) == (expected == "refitted")


def test_a_vocabulary_of_something_else_is_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "old" / "vocabulary", tmp_path / "vocabulary")
    (tmp_path / "vocabulary" / "item.parquet").write_bytes(b"x")
    with pytest.raises(KfrecError, match=r"vocabulary/item\.parquet: not a vocabulary"):
        preprocess(folder / "new-raw", tmp_path / "parquet", workflow=str(tmp_path))
