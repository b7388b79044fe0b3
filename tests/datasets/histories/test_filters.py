"""Each filter of preprocessing tells what it left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.feature_spec import load_feature_spec
from tests.datasets.amazon_reviews.raw import preprocess, raw_folder

REVIEWS = [("short", "s0", 0), ("short", "s1", 1)]
REVIEWS += [("again", item, time) for time, item in enumerate(("i0", "i1", "i2", "i1"))]
REVIEWS += [("other", item, time) for time, item in enumerate(("i0", "i1", "i2", "i3"))]


def test_each_filter_tells_what_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = raw_folder(tmp_path / "raw", REVIEWS, {"i0": "c", "s0": "c"})
    preprocess(raw, tmp_path / "parquet", negatives="none", seen_items="exclude")
    told = capsys.readouterr().out
    assert (
        "1 users, 2 events and 2 items are left out by shortest_sequence_for_user=3; 0 users, 2 events and 1 items are "
        "no targets: their user has no event before them; 0 users, 1 events and 0 items are no targets by "
        "seen_items=exclude: their user had the item before; 2 users, 5 events and 3 items can be targets\n"
    ) in told
    assert "data check: 1 of 3 users are left out by shortest_sequence_for_user=3; lower" in told
    noted = load_feature_spec(tmp_path / "parquet").metadata["encoding"]["filters"]
    assert noted == {
        "shortest_sequence_for_user": {"users": 1, "events": 2, "items": 2},
        "first_event": {"users": 0, "events": 2, "items": 1},
        "seen_items": {"users": 0, "events": 1, "items": 0},
        "targets": {"users": 2, "events": 5, "items": 3},
        "unknown": {"users": 0, "events": 0, "items": 0},
    }


def test_the_amounts_do_not_depend_on_the_partitions(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", REVIEWS, {"i0": "c", "s0": "c"})
    found = []
    for rows in (3, 100):
        preprocess(raw, tmp_path / str(rows), negatives="none", reviews_per_partition=rows)
        found.append(load_feature_spec(tmp_path / str(rows)).metadata["encoding"]["filters"])
    assert found[0] == found[1]
