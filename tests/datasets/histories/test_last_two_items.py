"""What ``split=last_two_items`` promises: the last item tests, the one before validates, and neither trains."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt, open_artifact
from components.feature_spec import load_feature_spec
from tests.datasets.amazon_reviews.raw import error_of, named, preprocess, raw_folder, vocabulary
from tests.datasets.events.test_events import csv, made
from tests.datasets.events.test_kinds import EVENTS, HEADER
from tests.preprocess import running

SPLIT: dict[str, Any] = {"split": "last_two_items", "negatives": "none", "max_sequence_length": 30}
DAY = 86_400
# d is chosen in a last event alone, e only in events that test or validate, and u2 chooses c again at last.
CHOSEN = {"u0": "abcab", "u1": "bcad", "u2": "cabec", "u3": "acbe", "u4": "ba"}
CATEGORIES = dict.fromkeys("abcde", "one")


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("two"))


def written(folder: Path, **parameters: Any) -> Path:
    reviews = [(user, item, DAY * (place + 1)) for user, items in CHOSEN.items() for place, item in enumerate(items)]
    raw = raw_folder(folder / "raw", reviews, CATEGORIES)
    preprocess(raw, folder / "parquet", **SPLIT | {"shortest_sequence_for_user": 2} | parameters)
    return folder / "parquet"


def shown(output: Path, split: str) -> set[str]:
    """History and target of each sample, "?" for an unknown item."""
    rows = named(output, split)
    found = {"".join([*filter(None, row["item_sequence"]), row["item"]]) for row in rows}
    assert len(found) == len(rows)
    return found


def test_the_last_target_tests_and_the_one_before_validates(output: Path) -> None:
    assert shown(output, "train") == {"ab", "abc", "bc", "ca", "cab", "ac"}
    # Items that the user had before are no targets.
    assert shown(output, "validation") == {"bca", "cabe", "acb"}
    assert shown(output, "test") == {"acbe", "ba"}


def test_the_report_says_which_last_events_do_not_test(output: Path, tmp_path: Path) -> None:
    left_out = load_feature_spec(output).metadata["encoding"]["left_out"]
    assert left_out == {"first_event": 0, "seen_item": 2, "unknown_item": 1}
    kept = load_feature_spec(written(tmp_path, seen_items="keep"))
    assert kept.metadata["encoding"]["left_out"] == {"first_event": 0, "seen_item": 0, "unknown_item": 1}


def test_vocabularies_have_what_validates_and_counts_only_what_trains(output: Path) -> None:
    trains = Counter(item for items in CHOSEN.values() for item in items[:-2])
    table = pq.read_table(output / "vocabulary" / "item.parquet").to_pylist()
    assert {row["value"]: row["reviews"] for row in table} == {item: trains[item] for item in "abce"}
    assert {row["value"]: row["count"] for row in table} == {item: trains[item] for item in "abce"}
    assert set(vocabulary(output, "uid").values()) == set(CHOSEN)


def test_recent_popularity_is_of_the_last_days_that_train(tmp_path: Path) -> None:
    # The newest event that trains is of day 3: the third one of u0 and of u2.
    for days, expected in ((1.0, {"c": 1, "b": 1}), (1.5, {"c": 3, "b": 2, "a": 1})):
        found = written(tmp_path / f"{days}", popularity_days=days)
        table = pq.read_table(found / "vocabulary" / "item.parquet").to_pylist()
        assert {row["value"]: row["recent"] for row in table if row["recent"]} == expected


def test_a_refit_trains_on_all_of_them(output: Path, tmp_path: Path) -> None:
    refit = written(tmp_path, refitting=True)
    assert set(open_artifact(refit).rows) & {"train", "validation", "test"} == {"train", "test"}
    assert shown(refit, "train") >= shown(output, "train") | shown(output, "validation") | shown(output, "test")
    assert set(vocabulary(refit, "item").values()) == set("abcde")


@pytest.mark.parametrize("negatives", ["popularity", "contemporary"])
def test_negatives_are_of_events_that_train(tmp_path: Path, negatives: str) -> None:
    found = written(tmp_path, negatives=negatives, seen_items="keep")
    drawn = {row["item"] for split in ("train", "validation", "test") for row in named(found, split)[1::2]}
    assert drawn == set("abc")


def test_windows_end_before_what_is_held_out(tmp_path: Path) -> None:
    found = written(tmp_path, training_targets="windows", seen_items="keep", max_sequence_length=2)
    assert shown(found, "train") == {"abc", "bc", "cab", "ac"}


def test_events_between_the_held_out_targets_do_not_count(tmp_path: Path) -> None:
    given = {"target_kinds": "purchase", "context_kinds": "view", "shortest_sequence_for_user": 2}
    found = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **SPLIT | given)
    counts: Counter[str] = Counter()
    users = defaultdict(list)
    for user, item, time, kind in EVENTS:
        if kind != "cart":
            users[user].append((time, item, kind))
    held_out = 0
    for events in users.values():
        purchases = sum(kind == "purchase" for _, _, kind in events)
        bought = 0
        for _, item, kind in sorted(events):
            bought += kind == "purchase"
            trains = not bought or bought < purchases - 1
            counts[item] += trains
            held_out += not trains and kind == "view"
    assert held_out
    table = pq.read_table(found / "vocabulary" / "item.parquet").to_pylist()
    assert {row["value"]: row["reviews"] for row in table if row["reviews"]} == {k: n for k, n in counts.items() if n}


@pytest.mark.parametrize("dataset", ["movielens", "events"])
def test_every_data_set_has_the_same_split(output: Path, tmp_path: Path, dataset: str) -> None:
    separator, head, name = (
        ("::", "", "ratings.dat") if dataset == "movielens" else (",", "user,item,rating,timestamp\n", "e.csv")
    )
    rows = [
        separator.join((user.removeprefix("u"), str("abcde".index(item)), "5", str(DAY * (place + 1))))
        for user, items in CHOSEN.items()
        for place, item in enumerate(items)
    ]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / name).write_text(head + "".join(f"{row}\n" for row in rows))
    adopt(tmp_path / "raw")
    given = {"dataset": dataset, "shortest_sequence_for_user": 2, **SPLIT}
    running.preprocess(tmp_path / "raw", tmp_path / "parquet", **given)
    for split in ("train", "validation", "test"):
        found = {each.translate(str.maketrans("01234", "abcde")) for each in shown(tmp_path / "parquet", split)}
        assert found == shown(output, split)


def test_a_history_too_short_to_train_is_told(tmp_path: Path) -> None:
    reviews = [(user, item, DAY * place) for user in ("u0", "u1") for place, item in enumerate("abc")]
    raw = raw_folder(tmp_path / "raw", reviews, CATEGORIES)
    message = error_of(raw, tmp_path / "parquet", **SPLIT)
    assert "the longest history has 3 events" in message and "the validation and test targets after it" in message
