"""New items of a model whose item vectors have the category, or columns of items: listed by the vector of these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.inference.files import candidates_in
from components.scoring import RawModel
from components.scoring.catalogue import NEW_ITEM, UNKNOWN_ITEM, Catalogue
from components.scoring.recommend import recommend
from components.tfrecord.step import TfrecordParameters
from components.tfrecord.step import run as tfrecord
from tests.datasets.amazon_reviews.raw import vocabulary
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
            day, told = DAY * (int(random.integers(5)) + 5 * number), (f"{item}", f"Shirt {item % 5}")
            rows.append((f"u{user}", f"i{item}", day, f"c{item % 3}", *told))
    raw = folder_of(folder / "raw", {"e.csv": table_of(rows, "user,item,timestamp,category,price,title")})
    given = {"dataset": "events", "negatives": "none", "max_sequence_length": 12, "item_columns": "price,title"}
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
    model = exported(records, tmp_path / "model", item_features="none")
    found = Catalogue(model, pa.array(NAMES), None, GIVEN)
    assert found.flags.tolist() == ["", UNKNOWN_ITEM, "", *[UNKNOWN_ITEM] * 3] and found.lists_new


@pytest.fixture(scope="module")
def described(records: Path, tmp_path_factory: pytest.TempPathFactory) -> RawModel:
    """By default a model reads the columns that the data have."""
    return exported(records, tmp_path_factory.mktemp("columns") / "model")


def stock(folder: Path, text: str, model: RawModel) -> Catalogue:
    (folder / "stock.csv").write_text(text)
    return Catalogue(model, *candidates_in(folder / "stock.csv", model, 0.0))


# A new item that is like i4, one that is like none, and two known ones.
TOLD = "item,category,price,title\ni4,c1,4,Shirt 4\ntwin,c1,4,shirt 4\nodd,c1,900,\ni5,c2,5,Shirt 0\n"


def test_a_new_item_has_the_vector_of_its_category_and_columns(described: RawModel, tmp_path: Path) -> None:
    found = stock(tmp_path, TOLD, described)
    assert found.flags.tolist() == ["", NEW_ITEM, NEW_ITEM, ""] and found.vectors is not None
    # Known items have their columns in their vectors, so that a twin differs by the id alone.
    (known,) = (number for number, name in vocabulary(described.model.folder, "item").items() if name == "i4")
    items = tf.saved_model.load(str(described.model.folder / "saved_model")).by_name["items"].numpy()
    np.testing.assert_allclose(found.vectors[1], found.vectors[0] - items[known], atol=1e-5)
    assert np.abs(found.vectors[1] - found.vectors[2]).max() > 1e-4
    # The mean of a column, which it lacks, and the number of another scale.
    without = stock(tmp_path, TOLD.replace(",category", ",kind"), described)
    assert without.flags.tolist() == ["", NEW_ITEM, NEW_ITEM, ""] and without.lists_new
    without.list_new(np.array([0, 3, 0, 3]))
    listed = recommend(without, ["u1"], [["i7"]], 4).table.to_pydict()
    assert set(listed["item"]) == {"i4", "twin", "odd", "i5"}


def test_items_listed_twice_and_not_available_keep_their_own_columns(described: RawModel, tmp_path: Path) -> None:
    text = "item,price,title,available_until\nold,1,,2020-01-01\ntwin,4,shirt 4,\ni5,5,Shirt 0,\ntwin,9,,\n"
    (tmp_path / "stock.csv").write_text(text)
    found = Catalogue(described, *candidates_in(tmp_path / "stock.csv", described, 2e9))
    expected = stock(tmp_path, TOLD.replace(",category", ",kind"), described)
    assert found.names.to_pylist() == ["twin", "i5"] and found.vectors is not None and expected.vectors is not None
    np.testing.assert_allclose(found.vectors[0], expected.vectors[1], atol=1e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("item,title\nnew,Shirt\n", r"stock.csv: no column price; the model knows items by price, title, so add it"),
        ("item,price,title\nnew,dear,Shirt\n", r"stock.csv: column price has 'dear', which is no number"),
    ],
)
def test_columns_that_do_not_fit_are_one_line(text: str, said: str, described: RawModel, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=said):
        stock(tmp_path, text, described)


def test_without_their_columns_new_items_are_listed_by_their_category(described: RawModel, tmp_path: Path) -> None:
    found = stock(tmp_path, "item,category\ni4,c1\nnew,c1\nother,c9\n", described)
    assert found.flags.tolist() == ["", NEW_ITEM, UNKNOWN_ITEM]


def test_a_mixture_scores_new_items_by_sasrec(records: Path, described: RawModel, tmp_path: Path) -> None:
    mixed = stock(tmp_path, TOLD, exported(records, tmp_path / "mixed", mixed=True, knn_share=0.25))
    assert mixed.flags.tolist() == ["", NEW_ITEM, NEW_ITEM, ""] and mixed.vectors is None
    alone = stock(tmp_path, TOLD, described)
    users = pa.array(["u1", "u2"]), pa.array([["i4", "i7"], []], pa.list_(pa.string()))
    (by_both,), (by_sasrec,) = (list(each.blocks(each.encoded(*users)[0], 2)) for each in (mixed, alone))
    every = Catalogue(described)
    (known,) = every.blocks(every.encoded(*users)[0], 2)
    likelihood = np.exp(by_sasrec) / np.exp(known).sum(1, keepdims=True)
    np.testing.assert_allclose(np.exp(by_both[:, 1:3]), 0.75 * likelihood[:, 1:3], rtol=1e-4)
