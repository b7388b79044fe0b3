"""Columns of items, such as price and title: one vector for each item of the vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt
from components.errors import KfrecError
from components.feature_spec.item_columns import (
    GIVEN,
    NUMBER,
    TEXT,
    ItemColumn,
    ItemColumns,
    read_item_columns,
)
from tests.datasets.amazon_reviews import raw
from tests.datasets.amazon_reviews.raw import random_reviews
from tests.datasets.events.test_events import DAY, csv, error_of, made
from tests.datasets.events.test_growing import GROWS, OLD, day_of
from tests.datasets.movielens.test_movielens import newer
from tests.preprocess import running

HEADER = "user,item,timestamp,category,price,title"
EVENTS = [
    (f"u{user}", f"i{item}", DAY * (40 * user + step), f"c{item % 3}", f"{item}.5", f"Red shirt {item % 5}")
    for user in range(30)
    for step, item in enumerate(np.random.default_rng(user).permutation(20)[:6].tolist())
]
NAMED = {"item_columns": "price,title"}


def vectors(output: Path) -> dict[str, np.ndarray]:
    table = pq.read_table(output / "vocabulary" / "item.parquet")
    return dict(zip(table["value"].to_pylist(), map(np.array, table["vector"].to_pylist()), strict=True))


def fitted(*values: Any) -> tuple[ItemColumn, np.ndarray]:
    column = ItemColumn.fitted("c", pa.array(values))
    return column, column.encode(pa.array(values))


def test_a_column_is_centred_scaled_and_of_its_kind() -> None:
    column, found = fitted("10", None, "20", "30")
    assert column.kind == NUMBER and found.shape == (4, 1)
    np.testing.assert_allclose(found[:, 0], np.sqrt(1.5) * np.array([-1, 0, 0, 1]), rtol=1e-6)
    column, found = fitted([1.0, 2.0], None, [3.0, 6.0])
    assert column.kind == GIVEN
    np.testing.assert_allclose(found, np.array([[-1, -2], [0, 0], [1, 2]]) / np.sqrt(5), rtol=1e-6)
    column, found = fitted("a red shirt", "a blue shirt", None, "Red SHIRT!", "12")
    assert column.kind == TEXT
    np.testing.assert_array_equal(found[0], found[3])
    assert np.abs(found[0] - found[1]).max() > 0.1 and not found[2].any()
    assert np.square(np.delete(found, 2, 0)).sum(1).mean() == pytest.approx(1)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        (ItemColumn("price", NUMBER, [1.0], 1.0), ["3", "dear"], "column price has 'dear', which is no number"),
        (ItemColumn("v", GIVEN, [1.0, 2.0], 1.0), [[1.0, 2.0], [1.0]], "column v: give each item a list of 2 numbers"),
        (ItemColumn("v", GIVEN, [1.0, 2.0], 1.0), ["1|2"], "column v is of the type string; give each item a list"),
        (ItemColumn("title", TEXT, [0.0] * 256, 1.0), [["a"]], r"column title is of the type list.*one text"),
    ],
)
def test_values_of_another_kind_are_one_line(column: ItemColumn, values: list[Any], said: str) -> None:
    with pytest.raises(KfrecError, match=said):
        ItemColumns((column,)).encode({column.name: pa.array(values)})


def test_items_have_the_vectors_of_their_columns(tmp_path: Path) -> None:
    output = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **NAMED)
    columns, found = read_item_columns(output), vectors(output)
    assert columns is not None and columns.names == ("price", "title") and columns.width == 258
    given = {"price": pa.array(["3.5", "7.5"]), "title": pa.array(["red shirt 3", "RED shirt 2"])}
    np.testing.assert_array_equal(columns.encode(given), [found["i3"], found["i7"]])
    assert found["i3"][0] == 1


def test_vectors_in_parquet_are_taken_as_given(tmp_path: Path) -> None:
    users, items, times, *_ = zip(*EVENTS, strict=True)
    told = [None if item == "i4" else [float(item[1:]), 1.0] for item in items]
    table = pa.table({"user": users, "item": items, "timestamp": times, "vector": told})
    output = made(tmp_path, {"e.parquet": table}, item_columns="vector")
    columns, found = read_item_columns(output), vectors(output)
    assert columns is not None and [each.kind for each in columns.columns] == [GIVEN]
    assert found["i4"].tolist() == [1, 0, 0] and found["i9"][1] > found["i8"][1]


def test_an_item_is_told_by_its_first_event_with_a_value(tmp_path: Path) -> None:
    first = [(*event[:4], "", "") for event in EVENTS[:6]]
    later = [(*event[:4], "77", "") for event in EVENTS]
    tables = {"a.csv": csv([*first, *EVENTS], HEADER), "b.csv": csv(later, HEADER)}
    expected = made(tmp_path / "plain", {"e.csv": csv(EVENTS, HEADER)}, **NAMED)
    found = vectors(made(tmp_path / "later", tables, **NAMED))
    for name, vector in vectors(expected).items():
        np.testing.assert_array_equal(found[name], vector)


def test_a_kept_vocabulary_keeps_the_statistics_and_what_it_knew(tmp_path: Path) -> None:
    first = made(tmp_path / "a", {"e.csv": csv(EVENTS, HEADER)}, **NAMED)
    dear = [(*event[:4], "1000", event[5]) for event in EVENTS if event[1] != "i3"]
    kept = made(tmp_path / "b", {"e.csv": csv(dear, HEADER)}, workflow=str(first), **NAMED)
    assert read_item_columns(kept) == read_item_columns(first)
    before, now = vectors(first), vectors(kept)
    np.testing.assert_array_equal(now["i3"], before["i3"])
    assert now["i4"][1] > 100 and (now["i4"][2:] == before["i4"][2:]).all()
    said = error_of(tmp_path / "c", {"e.csv": csv(EVENTS, HEADER)}, workflow=str(first), item_columns="price",
                    split="last_item", shortest_sequence_for_user=3)  # fmt: skip
    assert "item_columns=price: the vocabulary of workflow is of price,title; name these" in said


def test_a_vocabulary_that_grows_has_the_vectors_of_its_new_items(tmp_path: Path) -> None:
    def night(folder: Path, days: range, **given: Any) -> Path:
        rows = [(*event, str(int(event[1][1:]) + 0.5)) for day in days for event in day_of(day, [*OLD, f"i{20 + day}"])]
        table = csv(rows, "user,item,timestamp,category,price")
        return made(folder, {"e.csv": table}, **GROWS, item_columns="price", **given)

    first = night(tmp_path / "first", range(2))
    next_one = night(tmp_path / "next", range(2, 4), workflow=str(first))
    assert read_item_columns(next_one) == read_item_columns(first)
    before, now = vectors(first), vectors(next_one)
    assert {"i20", "i21"} <= set(before) & set(now) and {"i22", "i23"} & (set(now) - set(before))
    np.testing.assert_array_equal(now["i20"], before["i20"])
    (column,) = read_item_columns(first).columns
    assert now["i22"][1] == pytest.approx((22.5 - column.mean[0]) / column.scale)


@pytest.mark.parametrize(
    ("rows", "named", "said"),
    [
        (EVENTS, "colour", "item_columns"),
        ([(*event[:5], "") for event in EVENTS], "title", "item_columns: no item has a value of 'title'"),
    ],
)
def test_columns_that_nothing_is_known_of_are_one_line(rows: Any, named: str, said: str, tmp_path: Path) -> None:
    assert said in error_of(tmp_path, {"e.csv": csv(rows, HEADER)}, item_columns=named, shortest_sequence_for_user=3)


def test_without_item_columns_nothing_is_written(tmp_path: Path) -> None:
    output = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)})
    assert read_item_columns(output) is None
    assert "vector" not in pq.read_schema(output / "vocabulary" / "item.parquet").names


def test_reviews_have_the_fields_of_their_metadata(tmp_path: Path) -> None:
    items = [repr({"asin": f"i{n}", "title": f"Song {n}", "price": n + 0.5, "categories": [["Music"]]})
             for n in range(30)]  # fmt: skip
    folder = raw.raw_folder(tmp_path / "raw", random_reviews(60, 30, 1), items)
    raw.preprocess(folder, tmp_path / "parquet", item_columns="title,price")
    columns, found = read_item_columns(tmp_path / "parquet"), vectors(tmp_path / "parquet")
    assert columns is not None and [each.kind for each in columns.columns] == [TEXT, NUMBER]
    given = {"title": pa.array(["song 7"]), "price": pa.array([7.5])}
    np.testing.assert_array_equal(columns.encode(given)[0], found["i7"])
    said = raw.error_of(folder, tmp_path / "none", item_columns="colour")
    assert "no item has a value of 'colour'; name columns of the items" in said


def test_movies_have_a_title_a_year_and_genres(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    newer(folder)
    adopt(folder)
    small = {"max_sequence_length": 5, "negative_sequence_length": 2}
    running.preprocess(folder, tmp_path / "parquet", dataset="movielens", item_columns="title,year,genres", **small)
    columns, found = read_item_columns(tmp_path / "parquet"), vectors(tmp_path / "parquet")
    assert columns is not None and [each.kind for each in columns.columns] == [TEXT, NUMBER, TEXT]
    assert columns.columns[1].mean == [1995.0]
    given = {"title": pa.array(["Café, A"]), "year": pa.array(["1995"]), "genres": pa.array(["Sci-Fi|Action"])}
    np.testing.assert_allclose(columns.encode(given)[0], found["3"], atol=1e-6)
    said = running.error_of(folder, tmp_path / "none", dataset="movielens", item_columns="director", **small)
    assert "item_columns: no 'director' is known of movies (title, year, genres); leave it out" in said
