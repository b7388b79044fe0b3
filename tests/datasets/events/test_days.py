"""Histories that end with the day before their target, as lists made overnight see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from components.datasets.histories.sample_files import SAMPLE
from components.feature_spec import Channel, load_feature_spec
from tests.datasets.amazon_reviews.raw import samples, vocabulary
from tests.datasets.events.test_events import DAY, csv, error_of, made

LENGTH = 8
WINDOWS = {"negatives": "none", "training_targets": "windows"}
Event = tuple[str, str, int]


def visits(seed: int = 5) -> list[Event]:
    """Events of 30 users on about every third day; the items are known from the first day on."""
    random = np.random.default_rng(seed)
    first = [(f"u{item}", f"i{item}", 0) for item in range(20)]
    return first + [
        (f"u{user}", f"i{random.integers(20)}", DAY * day + 3600 * hour)
        for user in range(30)
        for day in (1 + np.flatnonzero(random.random(30) < 0.3)).tolist()
        for hour in range(random.integers(1, 5))
    ]


EVENTS = visits()


def events(tmp_path: Path, **given: Any) -> Path:
    common = {"split": "time", "seen_items": "keep", "max_sequence_length": LENGTH, "history_ends": "day"}
    return made(tmp_path, {"e.csv": csv(EVENTS, "user,item,timestamp")}, **common, **given)


def named(output: Path, split: str) -> list[dict[str, Any]]:
    user, item = ({0: None, 2: "?", **vocabulary(output, kind)} for kind in ("uid", "item"))
    return [
        {
            "user": user[row["uid"]],
            "item": item[row["item"]],
            "history": [item[each] for each in row["item_sequence"]],
            "days": row.get("days_sequence", []),
        }
        for row in samples(output, split)
    ]


def histories_before(user: str, item: str) -> list[list[str | None]]:
    """The newest items of the days before each day on which a user chose an item."""
    mine = sorted((event for event in EVENTS if event[0] == user), key=lambda event: event[2])
    found = []
    for day in {time // DAY for _, name, time in mine if name == item}:
        known = [name for _, name, time in mine if time // DAY < day][-LENGTH:]
        found.append([None] * (LENGTH - len(known)) + known)
    return found


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_history_ends_with_the_day_before_its_target(tmp_path: Path, split: str) -> None:
    output = events(tmp_path, negatives="none")
    rows = named(output, split)
    assert len(rows) > 20
    for row in rows:
        assert row["history"] in histories_before(row["user"], row["item"])
    assert load_feature_spec(output).metadata["encoding"]["sampling"]["history_ends"] == "day"


def test_each_item_of_a_window_tells_how_many_days_it_is_before_the_target(tmp_path: Path) -> None:
    rows = named(events(tmp_path, **WINDOWS), "train")
    earlier = 0
    for row in rows:
        mine = sorted((event for event in EVENTS if event[0] == row["user"]), key=lambda event: event[2])
        # The places of the target among its user's events whose history is this one; events are rarely alike.
        known = [item for item in row["history"] if item]
        places = [
            place
            for place, (_, item, _) in enumerate(mine)
            if item == row["item"] and [each[1] for each in mine[:place]][-LENGTH:] == known
        ]
        days = [time // DAY for _, _, time in mine]
        wanted = []
        for place in places:
            before = [len({*days[past : place + 1]}) - 1 for past in range(max(place - LENGTH, 0), place)]
            wanted.append([before[0] + 1] * (LENGTH - len(before)) + before)
        assert row["days"] in wanted
        earlier += sum(day > 0 for day, item in zip(row["days"], row["history"], strict=True) if item)
    assert earlier > 100


def test_days_do_not_depend_on_partitions(tmp_path: Path) -> None:
    one, many = (
        events(tmp_path / name, **WINDOWS, reviews_per_partition=size) for name, size in (("a", 500_000), ("b", 40))
    )

    def by_user(output: Path) -> list[tuple[Any, ...]]:
        return sorted((row["user"], row["item"], *row["days"]) for row in named(output, "train"))

    assert by_user(one) == by_user(many)


def test_only_windows_tell_days(tmp_path: Path) -> None:
    whole = load_feature_spec(events(tmp_path / "a", **WINDOWS))
    assert whole.channels[Channel.DAYS] == ("days_sequence",)
    assert Channel.DAYS not in load_feature_spec(events(tmp_path / "b", negatives="none")).channels
    assert pq.read_schema(tmp_path / "a" / "parquet" / "train" / "part.0.parquet").names == [
        *SAMPLE.names, "days_sequence"
    ]  # fmt: skip


SESSIONS = [
    (f"u{user}", f"i{(user + click) % 9}", DAY * (user % 10) + click) for user in range(60) for click in range(6)
]


@pytest.mark.parametrize(
    ("rows", "given", "ends"),
    [
        (EVENTS, {"negatives": "none"}, "day"),
        (SESSIONS, {"negatives": "none"}, "event"),
        (EVENTS, {}, "event"),
        (EVENTS, {"negatives": "none", "split": "last_item"}, "event"),
    ],
    ids=["users who come back", "sessions of a day", "negatives", "the published protocol"],
)
def test_by_itself_a_history_ends_as_the_data_are(tmp_path: Path, rows: Any, given: Any, ends: str) -> None:
    tables = {"e.csv": csv(rows, "user,item,timestamp")}
    output = made(tmp_path, tables, **{"split": "time", "history_ends": "auto", **given})
    assert load_feature_spec(output).metadata["encoding"]["sampling"]["history_ends"] == ends


def test_sessions_of_a_day_have_no_history_on_earlier_days(tmp_path: Path) -> None:
    tables = {"e.csv": csv(SESSIONS, "user,item,timestamp")}
    error = error_of(tmp_path, tables, negatives="none", split="time", history_ends="day", shortest_sequence_for_user=3)
    assert "on the days before it; set history_ends=event" in error
