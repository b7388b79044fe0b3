"""New items of a model whose item vectors have the category: listed by the vector of that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from components.scoring import RawModel
from components.scoring.catalogue import NEW_ITEM, UNKNOWN_ITEM, Catalogue
from components.scoring.recommend import recommend
from components.tfrecord.step import TfrecordParameters
from components.tfrecord.step import run as tfrecord
from tests.datasets.events.test_events import DAY, folder_of
from tests.datasets.events.test_events import csv as table_of
from tests.preprocess import running
from tests.scoring.test_seen_items import exported


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 40 users and 30 items, of the categories c0 to c2."""
    folder, random, rows = tmp_path_factory.mktemp("events"), np.random.default_rng(1), []
    for user in range(40):
        for number, item in enumerate(random.permutation(30)[:12]):
            rows.append((f"u{user}", f"i{item}", DAY * (int(random.integers(5)) + 5 * number), f"c{item % 3}"))
    raw = folder_of(folder / "raw", {"e.csv": table_of(rows, "user,item,timestamp,category")})
    given = {"dataset": "events", "negatives": "none", "max_sequence_length": 12}
    running.preprocess(raw, folder / "parquet", **given, test_reviews=0.3)
    tfrecord(TfrecordParameters(), parquet=folder / "parquet", tfrecord=folder / "tfrecord")
    return folder / "tfrecord"


@pytest.fixture(scope="module")
def model(records: Path, tmp_path_factory: pytest.TempPathFactory) -> RawModel:
    return exported(records, tmp_path_factory.mktemp("with") / "model", item_features="categories")


NAMES = ["i1", "new", "i2", "newer", "other", "nameless"]
GIVEN = pa.array(["c1", "c1", "c2", "c2", "c9", None])


def test_a_new_item_has_the_vector_of_its_category_and_competes_by_its_score(model: RawModel) -> None:
    found = Catalogue(model, pa.array(NAMES), None, GIVEN)
    assert found.flags.tolist() == ["", NEW_ITEM, "", NEW_ITEM, UNKNOWN_ITEM, UNKNOWN_ITEM]
    assert found.vectors is not None
    again = Catalogue(model, pa.array(["third", "i1"]), None, pa.array(["c1", "c1"]))
    assert again.vectors is not None
    # Alike within a category, and not over categories.
    np.testing.assert_array_equal(again.vectors[0], found.vectors[1])
    assert np.abs(found.vectors[1] - found.vectors[3]).max() > 1e-4
    listed = recommend(found, ["u1"], [["i4", "i7"]], 6).table.to_pydict()
    flags = dict(zip(listed["item"], listed["flag"], strict=True))
    assert set(listed["item"][:4]) == {"i1", "new", "i2", "newer"} and flags["new"] == NEW_ITEM
    inputs, _ = found.encoded(pa.array(["u1"]), pa.array([["i4", "i7"]], pa.list_(pa.string())))
    (scores,) = found.scores(inputs, 1)
    assert listed["item"][:4] == [NAMES[place] for place in np.argsort(-scores[:4])]


def test_a_new_item_that_is_chosen_more_often_is_listed_before_others_of_its_category(
    model: RawModel,
) -> None:
    found = Catalogue(model, pa.array(["i1", "new", "newer"]), None, pa.array(["c1"] * 3))
    assert found.lists_new
    found.list_new(np.array([1, 0, 5]))
    listed = recommend(found, ["u1"], [["i4", "i7"]], 3).table.to_pydict()
    assert [item for item in listed["item"] if item != "i1"] == ["newer", "new"]
    likelihood = dict(zip(listed["item"], listed["likelihood"], strict=True))
    assert likelihood["newer"] / likelihood["new"] == pytest.approx(5.5 / 0.5, rel=1e-4)


def test_without_a_given_category_new_items_stay_unknown(model: RawModel) -> None:
    found = Catalogue(model, pa.array(NAMES))
    assert found.flags.tolist() == ["", UNKNOWN_ITEM, "", *[UNKNOWN_ITEM] * 3]


def test_items_of_a_category_that_the_model_lacks_are_listed_by_their_share_of_it(model: RawModel) -> None:
    """The catalogue names its categories otherwise than the events of the training."""
    found = Catalogue(model, pa.array(["i1", "new", "i2"]), None, pa.array(["lamps", "lamps", "chairs"]))
    assert found.flags.tolist() == ["", UNKNOWN_ITEM, ""] and found.lists_new
    found.list_new(np.array([1, 3, 0]))
    assert found.flags.tolist() == ["", NEW_ITEM, ""]


def test_a_model_without_item_features_lists_new_items_by_their_share(records: Path, tmp_path: Path) -> None:
    found = Catalogue(exported(records, tmp_path / "model"), pa.array(NAMES), None, GIVEN)
    assert found.flags.tolist() == ["", UNKNOWN_ITEM, "", *[UNKNOWN_ITEM] * 3] and found.lists_new
