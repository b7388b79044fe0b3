"""What one hand-made data set must become, written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.feature_spec import load_feature_spec
from tests.datasets.amazon_reviews.raw import named, preprocess, random_reviews, raw_folder, samples, vocabulary

REVIEWS = [
    # Time decides, then the asin; ann's last two are of the same second.
    ("ann", "i3", 30),
    ("ann", "i1", 10),
    ("bob", "i1", 9),
    ("ann", "i2", 20),
    ("ann", "i5", 40),
    ("ann", "i4", 40),
    ("ann", "i1", 35),
    ("bob", "i2", 8),
    ("cat", "i9", 1),
    ("bob", "i2", 7),
    ("cat", "i9", 2),
]
CATEGORIES = {"i1": "x", "i2": "x", "i3": "y", "i4": "y", "i9": "unused"}  # i5 is missing.


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hand-made")
    preprocess(raw_folder(folder / "raw", REVIEWS, CATEGORIES), folder / "parquet")
    return folder / "parquet"


def positives(output: Path, split: str, user: str) -> list[tuple[Any, ...]]:
    rows = [row for row in named(output, split) if row["label"] == 1 and row["uid"] == user]
    return [(row["item_sequence"], row["item"]) for row in rows]


def test_every_item_but_the_first_and_the_last_is_a_training_target(output: Path) -> None:
    assert positives(output, "train", "ann") == [
        ([None, None, None, "i1"], "i2"),
        ([None, None, "i1", "i2"], "i3"),
        ([None, "i1", "i2", "i3"], "i1"),
        (["i1", "i2", "i3", "i1"], "i4"),
    ]
    assert positives(output, "train", "bob") == [([None, None, None, "i2"], "i2")]


def test_the_last_item_is_the_test_target_after_the_newest_before_it(output: Path) -> None:
    assert positives(output, "test", "ann") == [(["i2", "i3", "i1", "i4"], "i5")]
    assert positives(output, "test", "bob") == [([None, None, "i2", "i2"], "i1")]


def test_users_with_too_few_reviews_are_nowhere(output: Path) -> None:
    assert set(vocabulary(output, "uid").values()) == {"ann", "bob"}
    assert "i9" not in vocabulary(output, "item").values()
    assert "unused" not in vocabulary(output, "cat").values()


def test_an_item_without_metadata_has_no_category(output: Path) -> None:
    target = next(row for row in named(output, "test") if row["label"] == 1 and row["uid"] == "ann")
    assert (target["item"], target["cat"]) == ("i5", "no_category")


def test_categories_follow_their_items(output: Path) -> None:
    known = CATEGORIES | {"i5": "no_category", None: None}
    for split in ("train", "test"):
        for row in named(output, split):
            assert row["cat"] == known[row["item"]]
            assert row["cat_sequence"] == [known[item] for item in row["item_sequence"]]
            assert row["neg_cat_sequence"] == [known[item] for item in row["neg_item_sequence"]]


def test_each_positive_has_a_negative_with_the_same_history(output: Path) -> None:
    for split in ("train", "test"):
        rows = samples(output, split)
        for positive, negative in zip(rows[::2], rows[1::2], strict=True):
            assert (positive["label"], negative["label"]) == (1, 0)
            assert all(positive[column] == negative[column] for column in ("uid", "item_sequence", "cat_sequence"))


def test_ids_are_by_frequency_then_by_name_from_3(output: Path) -> None:
    assert vocabulary(output, "item") == {3: "i1", 4: "i2", 5: "i3", 6: "i4", 7: "i5"}
    assert vocabulary(output, "uid") == {3: "ann", 4: "bob"}
    assert vocabulary(output, "cat") == {3: "x", 4: "y", 5: "no_category"}


def test_cardinalities_are_the_largest_ids_in_order(output: Path) -> None:
    features = load_feature_spec(output).features
    assert [features[name].cardinality for name in ("uid", "item_trgt", "cat_trgt")] == [4, 7, 5]


def test_columns_have_the_published_order_and_types(output: Path) -> None:
    schema = pq.read_schema(output / "train" / "part.0.parquet")
    assert schema.names == [
        "label", "uid", "item", "cat", "item_sequence", "cat_sequence", "neg_item_sequence", "neg_cat_sequence",
    ]  # fmt: skip
    assert schema.types[:4] == [pa.int8(), pa.int32(), pa.int32(), pa.int32()]
    assert all(kind.value_type == pa.int32() for kind in schema.types[4:])


def test_a_longer_shortest_history_drops_the_earliest_targets(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", REVIEWS, CATEGORIES)
    rows = preprocess(raw, tmp_path / "parquet", shortest_sequence_for_training=3)
    assert [target for _, target in positives(tmp_path / "parquet", "train", "ann")] == ["i1", "i4"]
    assert positives(tmp_path / "parquet", "train", "bob") == []
    assert (rows["train"], rows["test"], rows["users"], rows["events"]) == (4, 4, 2, 9)


def test_a_review_written_twice_counts_twice(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", [("ann", "i1", 1), ("ann", "i1", 1), ("ann", "i2", 2)], CATEGORIES)
    preprocess(raw, tmp_path / "parquet")
    assert positives(tmp_path / "parquet", "test", "ann") == [([None, None, "i1", "i1"], "i2")]


def test_samples_of_any_number_of_users_fill_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = raw_folder(tmp_path / "raw", random_reviews(120, 9, seed=2), CATEGORIES)
    preprocess(raw, tmp_path / "one")
    monkeypatch.setattr("components.datasets.histories.sample_files.ROW_GROUP", 64)
    preprocess(raw, tmp_path / "many")
    for split in ("train", "test"):
        assert samples(tmp_path / "one", split) == samples(tmp_path / "many", split)
        metadata = pq.read_metadata(tmp_path / "many" / split / "part.0.parquet")
        sizes = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
        assert len(sizes) > 1
        assert all(32 <= size < 128 for size in sizes[:-1])
