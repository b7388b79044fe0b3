"""Columns of events, such as device and price: they travel with the items of histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.datasets.histories.event_ids import INTERVALS, ColumnIds, fit_columns, read
from components.feature_spec import Channel, load_feature_spec
from components.feature_spec.event_columns import EventColumn, columns_in
from tests.datasets.amazon_reviews.raw import samples, vocabulary
from tests.datasets.events.test_events import DAY, csv, error_of, made

DEVICES = ("web", "app", "")
HEADER = "user,item,timestamp,device,price"
LENGTH = 4
GIVEN = {"event_categories": "device", "event_numbers": "price", "known_columns": "device"}
Event = tuple[str, str, int, str, str]


def events_of(seed: int = 2) -> list[Event]:
    random = np.random.default_rng(seed)
    return [
        (
            f"u{user}",
            f"i{random.integers(25)}",
            DAY * (40 * user + step),
            DEVICES[random.choice(3, p=(0.5, 0.3, 0.2))],
            f"{random.integers(1, 6)}.5" if random.random() < 0.8 else "",
        )
        for user in range(40)
        for step in range(9)
    ]


EVENTS = events_of()


def devices_of(user: str, item: str) -> set[tuple[tuple[str, ...], tuple[str, ...], str]]:
    """Devices and prices of the history, and the device of the target, of each possible sample of a user's item."""
    mine = sorted((event for event in EVENTS if event[0] == user), key=lambda event: event[2])
    return {
        (
            tuple(each[3] for each in mine[max(place - LENGTH, 0) : place]),
            tuple(each[4] for each in mine[max(place - LENGTH, 0) : place]),
            event[3],
        )
        for place, event in enumerate(mine)
        if event[1] == item
    }


@pytest.mark.parametrize("split", ["train", "test"])
def test_values_are_those_of_the_histories_items_and_known_ones_of_the_target(tmp_path: Path, split: str) -> None:
    output = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, seen_items="keep", **GIVEN)
    users, items = vocabulary(output, "uid"), vocabulary(output, "item")
    device, price = ({1: "", **vocabulary(output, f"event_{name}")} for name in ("device", "price"))
    rows = samples(output, split)
    assert rows
    for positive, negative in zip(rows[::2], rows[1::2], strict=True):
        for name in ("event_device_sequence", "event_price_sequence", "event_device"):
            assert positive[name] == negative[name]
        assert [each > 0 for each in positive["event_device_sequence"]] == [
            each > 0 for each in positive["item_sequence"]
        ]
        found = (
            tuple(device[each] for each in positive["event_device_sequence"] if each),
            tuple(price[each] for each in positive["event_price_sequence"] if each),
            device[positive["event_device"]],
        )
        assert found in devices_of(users[positive["uid"]], items[positive["item"]])


def test_the_specification_names_the_columns(tmp_path: Path) -> None:
    spec = load_feature_spec(made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **GIVEN))
    assert spec.channels[Channel.EVENTS] == ("event_device_sequence", "event_price_sequence")
    assert spec.channels[Channel.CONTEXT] == ("event_device",)
    assert columns_in(spec) == (EventColumn("device", is_known=True), EventColumn("price", is_number=True))
    assert spec.features["event_device"].cardinality == 4


def test_columns_that_no_parameter_names_change_nothing(tmp_path: Path) -> None:
    one = made(tmp_path / "one", {"e.csv": csv(EVENTS, HEADER)})
    other = made(tmp_path / "other", {"e.csv": csv((event[:3] for event in EVENTS), "user,item,timestamp")})
    for split in ("train", "test"):
        assert pq.read_table(one / split).equals(pq.read_table(other / split))
    assert Channel.EVENTS not in load_feature_spec(one).channels


def test_values_do_not_depend_on_partitions(tmp_path: Path) -> None:
    made_of = {
        size: made(tmp_path / str(size), {"e.csv": csv(EVENTS, HEADER)}, reviews_per_partition=size, **GIVEN)
        for size in (500_000, 60)
    }
    one, many = (
        sorted(pq.read_table(output / "train").to_pandas().astype(str).itertuples(index=False))
        for output in made_of.values()
    )
    assert one == many


def test_a_kept_vocabulary_keeps_the_ids_and_a_new_one_the_intervals(tmp_path: Path) -> None:
    first = made(tmp_path / "a", {"e.csv": csv(EVENTS, HEADER)}, **GIVEN)
    new = [(*event[:3], "phone", "99") for event in EVENTS]
    kept = made(tmp_path / "b", {"e.csv": csv(new, HEADER)}, workflow=str(first), **GIVEN)
    assert {each for row in samples(kept, "train") for each in row["event_device_sequence"] if each} == {2}
    assert vocabulary(kept, "event_price") == vocabulary(first, "event_price")
    others = [(user, f"new {item}", *rest) for user, item, *rest in new]
    refitted = made(
        tmp_path / "c", {"e.csv": csv(others, HEADER)}, workflow=str(first), out_of_vocabulary_limit=0.5, **GIVEN
    )
    assert vocabulary(refitted, "event_device") == {3: "phone"}
    assert vocabulary(refitted, "event_price") == vocabulary(first, "event_price")


PRICE, DEVICE = EventColumn("price", is_number=True), EventColumn("device")


def fitted(tmp_path: Path, column: EventColumn, values: list[Any]) -> ColumnIds:
    array, _ = read(column, pa.array(values))
    pq.write_table(pa.table({"time": range(len(values)), column.field: array}), tmp_path / "histories.parquet")
    (ids,) = fit_columns([column], {}, [tmp_path / "histories.parquet"], None)
    return ids


def encoded(ids: ColumnIds, values: list[Any]) -> list[int]:
    found: list[int] = ids.encode(read(ids.column, pa.array(values))[0]).tolist()
    return found


def test_numbers_have_the_ids_of_their_intervals(tmp_path: Path) -> None:
    few = fitted(tmp_path, PRICE, [1.5, None, 3.0, 8.0, 3.0])
    assert encoded(few, [0.0, 1.5, 2.9, 3.0, 7.0, 8.0, 1e9, None]) == [3, 3, 3, 4, 4, 5, 5, 1]
    many = fitted(tmp_path, PRICE, np.exp(np.arange(0, 10, 0.001)).tolist())
    counts = np.bincount(encoded(many, np.exp(np.arange(0, 10, 0.001)).tolist()))[3:]
    assert len(counts) == INTERVALS
    assert counts.max() - counts.min() <= 2
    assert encoded(fitted(tmp_path, PRICE, [None, None]), [3.0, None]) == [3, 1]


def test_categories_have_the_ids_of_their_frequency(tmp_path: Path) -> None:
    ids = fitted(tmp_path, DEVICE, ["b", "a", None, "b", "c"])
    assert encoded(ids, ["b", "a", "c", "d", None, " b "]) == [3, 4, 5, 2, 1, 3]
    assert encoded(fitted(tmp_path, DEVICE, [7, 7, 3]), ["7.0", "3", "1"]) == [3, 4, 2]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"event_categories": "colour"}, "no column 'colour'"),
        ({"event_categories": "device", "known_columns": "price"}, "parameter known_columns: 'price' is in neither"),
        ({"event_categories": "device", "event_numbers": "device"}, "'device' is in event_categories, too"),
        ({"event_numbers": "device"}, "device"),
    ],
)
def test_a_wrong_column_is_one_line(tmp_path: Path, given: dict[str, str], said: str) -> None:
    assert said in error_of(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **given)
