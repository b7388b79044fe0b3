"""What a split by time and contemporary negatives promise, for random reviews."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import open_artifact
from components.datasets.histories.sorting import hashes_of
from components.feature_spec import load_feature_spec
from components.feature_spec.vocabulary import VOCABULARY
from components.random_draws import mixed
from tests.datasets.amazon_reviews.raw import Review, error_of, named, preprocess, raw_folder, vocabulary

DAY = 86_400
SPLITS = ("train", "validation", "test")
WINDOW = 20
# Longer than any history, so that a sample shows all of it.
HONEST: dict[str, Any] = {
    "split": "time",
    "negative_window": float(WINDOW),
    "max_sequence_length": 60,
    "test_reviews": 0.2,
    "validation_reviews": 0.1,
}


def era_reviews(seed: int, users: int = 60, items: int = 240, days: int = 400, lifetime: int = 60) -> list[Review]:
    """Items are for sale for a while; users choose any of those. Equal times and repeated items occur."""
    random = np.random.default_rng(seed)
    found = []
    for user in range(users):
        for day in np.sort(random.integers(0, days, random.integers(3, 40))):
            born = random.integers(max(0, day - lifetime), day + 1)
            found.append((f"u{user}", f"i{born * items // days}", int(day) * DAY))
    return found


REVIEWS = era_reviews(seed=1)
TIMES = {(user, item): [time for u, i, time in REVIEWS if (u, i) == (user, item)] for user, item, _ in REVIEWS}
CATEGORIES = {f"i{number}": f"c{number % 7}" for number in range(240)}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    preprocess(raw_folder(folder / "raw", REVIEWS, CATEGORIES), folder / "parquet", **HONEST)
    return folder / "parquet"


@pytest.fixture(scope="module")
def cuts(output: Path) -> tuple[int, int]:
    """The moments of the two cuts, by their definition."""
    times = sorted(time for _, _, time in REVIEWS)
    test = times[int(len(times) * 0.8)]
    earlier = [time for time in times if time < test]
    return earlier[int(len(earlier) * 0.9)], test


def histories() -> dict[str, list[tuple[int, str]]]:
    found = defaultdict(list)
    for user, item, time in REVIEWS:
        found[user].append((time, item))
    return {user: sorted(each, key=lambda review: (review[0], tie(user, review[1]))) for user, each in found.items()}


@cache
def tie(user: str, item: str) -> int:
    """What orders the reviews that a user writes at one time."""
    one, other = hashes_of(pa.chunked_array([[user, item]]))
    return int(mixed(np.array([one ^ other]).view(np.uint64))[0])


def expected_targets(since: float, before: float) -> Counter[tuple[str, ...]]:
    """History and target of each review in the span that is the user's first of its item."""
    found: Counter[tuple[str, ...]] = Counter()
    for reviews in histories().values():
        items = [item for _, item in reviews]
        for place, (time, item) in enumerate(reviews):
            if place and since <= time < before and item not in items[:place]:
                found[(*items[:place], item)] += 1
    return found


def shown(row: dict[str, Any]) -> tuple[str, ...]:
    return (*(item for item in row["item_sequence"] if item is not None), row["item"])


def test_each_split_has_the_targets_of_its_span_after_all_earlier_reviews(output: Path, cuts: tuple[int, int]) -> None:
    known = set(vocabulary(output, "item").values())
    ends = (0, *cuts, float("inf"))
    for split, (since, before) in zip(SPLITS, pairwise(ends), strict=True):
        found = Counter(shown(row) for row in named(output, split) if row["label"] == 1)
        expected: Counter[tuple[str, ...]] = Counter()
        for history, count in expected_targets(since, before).items():
            expected[tuple(item if item in known else "?" for item in history)] += count
        assert found == expected
        assert len(found) > 20


def test_the_order_of_reviews_of_one_time_tells_nothing_of_their_items(tmp_path: Path) -> None:
    reviews = [(f"u{user}", item, DAY * (user + (item == "i2"))) for user in range(300) for item in ("i0", "i1", "i2")]
    reviews += [(f"v{day % 30}", f"i{3 + day % 7}", DAY * day) for day in range(300)]  # what negatives are drawn from
    raw = raw_folder(tmp_path / "raw", reviews, CATEGORIES)
    firsts = {}
    for split in ("time", "last_item"):
        preprocess(raw, tmp_path / split, **HONEST | {"split": split})
        rows = [row for part in ("train", "validation", "test") for row in named(tmp_path / split, part)]
        firsts[split] = Counter(shown(row)[0] for row in rows if row["label"] == 1 and row["item"] == "i2")
    assert set(firsts["last_item"]) == {"i0"}  # as published
    assert 0.4 < firsts["time"]["i0"] / firsts["time"].total() < 0.6


def test_negatives_were_reviewed_near_the_target_and_are_new_to_the_user(output: Path, cuts: tuple[int, int]) -> None:
    ends = {"train": cuts[0], "validation": cuts[1], "test": float("inf")}
    when = defaultdict(list)
    for _, item, time in REVIEWS:
        when[item].append(time)
    sparse = 0
    for split, end in ends.items():
        rows = named(output, split)
        for positive, negative in zip(rows[::2], rows[1::2], strict=True):
            history, target = shown(positive)[:-1], positive["item"]
            assert shown(negative)[:-1] == history
            if "?" in (*history, target, negative["item"]):
                continue
            assert negative["item"] not in (*history, target)
            candidates = TIMES[positive["uid"], target] if positive["uid"] != "?" else when[target]
            nearest = min(abs(t - other) for t in candidates for other in when[negative["item"]] if other < end)
            # At least the 100 nearest reviews are a window; here there are about 60 in 40 days.
            sparse += nearest > WINDOW * DAY
            assert nearest <= 3 * WINDOW * DAY
    assert sparse < 0.5 * sum(len(named(output, split)) for split in SPLITS)


def test_nothing_after_the_cut_reaches_what_trains(tmp_path: Path, output: Path, cuts: tuple[int, int]) -> None:
    """Other items and users after the cut leave training samples, vocabulary and counts as they are."""
    other = [
        (user, item if time < cuts[0] else f"late{place % 5}", time) for place, (user, item, time) in enumerate(REVIEWS)
    ]
    preprocess(raw_folder(tmp_path / "raw", other, CATEGORIES), tmp_path / "parquet", **HONEST)
    for folder in ("train", VOCABULARY):
        files = sorted((output / folder).iterdir())
        assert files
        for path in files:
            changed = tmp_path / "parquet" / folder / path.name
            assert pq.read_table(changed).equals(pq.read_table(path)), path.name


def test_vocabularies_hold_only_what_trains(output: Path, cuts: tuple[int, int]) -> None:
    trains = [(user, item) for user, item, time in REVIEWS if time < cuts[0]]
    assert set(vocabulary(output, "uid").values()) == {user for user, _ in trains}
    assert set(vocabulary(output, "item").values()) == {item for _, item in trains}


def test_what_the_vocabulary_lacks_is_counted(output: Path, cuts: tuple[int, int]) -> None:
    users, items = ({review[place] for review in REVIEWS if review[2] < cuts[0]} for place in (0, 1))
    new = [item for _, item, _ in REVIEWS if item not in items]
    late = {user for user, _, _ in REVIEWS} - users
    noted = load_feature_spec(output).metadata["encoding"]["filters"]["unknown"]
    assert noted == {"users": len(late), "events": len(new), "items": len(set(new))}


def test_the_vocabulary_counts_the_reviews_that_train_and_those_of_the_last_window(
    output: Path, cuts: tuple[int, int]
) -> None:
    table = pq.read_table(output / "vocabulary" / "item.parquet").to_pylist()
    trains = sorted((time, item) for _, item, time in REVIEWS if time < cuts[0])
    every = Counter(item for _, item in trains)
    last = [item for time, item in trains if time >= cuts[0] - WINDOW * DAY]
    recent = Counter(last if len(last) >= 100 else [item for _, item in trains[-100:]])
    assert {row["value"]: row["reviews"] for row in table} == every
    if len(last) >= 100:
        assert {row["value"]: row["count"] for row in table if row["count"]} == recent
    assert sum(row["count"] for row in table) == sum(recent.values())
    week = Counter(item for time, item in trains if time >= cuts[0] - 7 * DAY)
    assert week and {row["value"]: row["recent"] for row in table if row["recent"]} == week


def test_the_published_pair_is_one_parameter_away(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", REVIEWS, CATEGORIES)
    preprocess(raw, tmp_path / "one", split="last_item")
    preprocess(raw, tmp_path / "all", split="last_item", negatives="popularity", seen_items="keep")
    for split in ("train", "test"):
        assert named(tmp_path / "one", split) == named(tmp_path / "all", split)
    assert not (tmp_path / "one" / "validation").exists()


@pytest.mark.parametrize("split", ["time", "last_item"])
@pytest.mark.parametrize("negatives", ["contemporary", "popularity"])
def test_seen_items_are_excluded_as_targets_and_as_negatives(tmp_path: Path, split: str, negatives: str) -> None:
    chosen = HONEST | {"split": split, "negatives": negatives, "seen_items": "exclude"}
    preprocess(raw_folder(tmp_path / "raw", REVIEWS, CATEGORIES), tmp_path / "parquet", **chosen)
    rows = named(tmp_path / "parquet", "train")
    assert rows
    for row in rows:
        assert row["item"] not in row["item_sequence"]
    for positive, negative in zip(rows[::2], rows[1::2], strict=True):
        assert positive["item"] != negative["item"]


def test_a_target_without_an_unseen_item_has_no_sample(tmp_path: Path) -> None:
    reviews = [("all", f"i{number}", number * DAY) for number in range(4)]
    reviews += [("few", f"i{number}", (number + 2) * DAY) for number in range(3)]
    raw = raw_folder(tmp_path / "raw", reviews, CATEGORIES)
    preprocess(raw, tmp_path / "parquet", split="last_item", seen_items="exclude")
    assert {row["uid"] for row in named(tmp_path / "parquet", "train")} == {"all", "few"}
    assert {row["uid"] for row in named(tmp_path / "parquet", "test")} == {"few"}


@pytest.mark.slow
def test_partitions_and_order_of_lines_do_not_change_the_samples(tmp_path: Path, output: Path) -> None:
    raw = raw_folder(tmp_path / "raw", REVIEWS[::-1], CATEGORIES)
    preprocess(raw, tmp_path / "same", **HONEST)
    assert open_artifact(tmp_path / "same").digest == open_artifact(output).digest
    preprocess(raw, tmp_path / "parts", **HONEST, reviews_per_partition=150)
    for split in SPLITS:
        assert named(tmp_path / "parts", split) == named(output, split)


def test_reviews_of_one_time_cannot_be_cut(tmp_path: Path) -> None:
    reviews = [(user, f"i{number}", 7 * DAY) for user in ("a", "b") for number in range(6)]
    message = error_of(raw_folder(tmp_path / "raw", reviews, CATEGORIES), tmp_path / "parquet", split="time")
    assert "reviews_Test.json: 12 events of the times 1970-01-08 00:00 to 1970-01-08 00:00 leave none before" in message
    assert "set split=last_item" in message


def test_a_cut_that_leaves_no_target_is_named(tmp_path: Path) -> None:
    # After the cut come only items that their users have seen.
    reviews = [(user, f"i{number % 5}", number * DAY) for user in ("a", "b") for number in range(12)]
    message = error_of(raw_folder(tmp_path / "raw", reviews, CATEGORIES), tmp_path / "parquet", split="time")
    assert "no test sample is left" in message
    assert "change test_reviews=0.1, or set split=last_item" in message


def test_without_negatives_the_positive_samples_are_the_same(tmp_path: Path, output: Path) -> None:
    raw = raw_folder(tmp_path / "raw", REVIEWS, CATEGORIES)
    counts = preprocess(raw, tmp_path / "parquet", **HONEST | {"negatives": "none"})
    for split in SPLITS:
        rows = named(tmp_path / "parquet", split)
        drawn = ("neg_item_sequence", "neg_cat_sequence")
        assert {item for row in rows for name in drawn for item in row[name]} == {None}
        positives = [row for row in named(output, split) if row["label"] == 1]
        assert [{k: v for k, v in row.items() if k not in drawn} for row in rows] == [
            {k: v for k, v in row.items() if k not in drawn} for row in positives
        ]
        assert counts[split] == len(rows)


def test_the_newest_target_of_each_window_trains(tmp_path: Path, cuts: tuple[int, int]) -> None:
    chosen = HONEST | {"negatives": "none", "training_targets": "windows", "max_sequence_length": 5}
    preprocess(raw_folder(tmp_path / "raw", REVIEWS, CATEGORIES), tmp_path / "parquet", **chosen)
    expected: Counter[tuple[str, ...]] = Counter()
    for reviews in histories().values():
        items = [item for _, item in reviews]
        places = [
            place
            for place, (time, item) in enumerate(reviews)
            if place and time < cuts[0] and item not in items[:place]
        ]
        newest: dict[int, int] = {}
        for place in places:
            newest[(places[-1] - place) // 5] = place
        expected.update(tuple(items[max(0, place - 5) : place + 1]) for place in newest.values())
    assert Counter(shown(row) for row in named(tmp_path / "parquet", "train")) == expected
    tested = Counter(shown(row)[-1] for row in named(tmp_path / "parquet", "test"))
    assert tested.total() == expected_targets(cuts[1], float("inf")).total()


def positives(output: Path, split: str) -> Counter[tuple[str, ...]]:
    return Counter(shown(row) for row in named(output, split) if row["label"] == 1)


def test_for_a_refit_everything_trains_and_the_newest_reviews_still_test(
    output: Path, cuts: tuple[int, int], tmp_path: Path
) -> None:
    made = tmp_path / "parquet"
    workflow = str(output)  # lacks the newest items, so it is not kept
    preprocess(raw_folder(tmp_path / "raw", REVIEWS, CATEGORIES), made, **HONEST, workflow=workflow, refitting=True)
    assert set(open_artifact(made).rows) & set(SPLITS) == {"train", "test"}
    assert positives(made, "train") == expected_targets(0, float("inf"))
    assert positives(made, "test") == expected_targets(cuts[1], float("inf"))
    assert set(vocabulary(made, "item").values()) > set(vocabulary(output, "item").values())


def test_the_last_item_of_each_user_trains_for_a_refit(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", REVIEWS, CATEGORIES)
    for name, refitting in (("judged", False), ("refit", True)):
        preprocess(raw, tmp_path / name, **HONEST | {"split": "last_item", "refitting": refitting})
    tested = positives(tmp_path / "judged", "test")
    assert positives(tmp_path / "refit", "test") == tested
    assert positives(tmp_path / "refit", "train") == positives(tmp_path / "judged", "train") + tested
