"""Kinds of events: purchases are targets, views are their histories."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from components.feature_spec import Channel, load_feature_spec
from components.feature_spec.values import names_of
from components.steps.catalog import STEPS
from tests.datasets.amazon_reviews.raw import named
from tests.datasets.events.test_events import DAY, csv, error_of, made

KINDS = ("view", "cart", "purchase")
HEADER = "user,item,timestamp,event"
Event = tuple[str, str, int, str]


def events_of(seed: int = 3) -> list[Event]:
    random = np.random.default_rng(seed)
    return [
        (f"u{user}", f"i{random.integers(25)}", DAY * (40 * user + step), KINDS[random.choice(3, p=(0.6, 0.2, 0.2))])
        for user in range(40)
        for step in range(12)
    ]


EVENTS = events_of()


def expected(targets: str, context: tuple[str, ...]) -> dict[str, list[tuple[str, ...]]]:
    """The newest four items of the history and the target of each possible sample, by user, oldest first."""
    found = defaultdict(list)
    for user in {user for user, *_ in EVENTS}:
        history: list[str] = []
        for _, item, _, kind in sorted((e for e in EVENTS if e[0] == user), key=lambda event: event[2]):
            if kind == targets and history:
                found[user].append((*history[-4:], item))
            if kind in context:
                history.append(item)
    return found


def samples(output: Path, *splits: str) -> dict[str, list[tuple[str, ...]]]:
    found = defaultdict(list)
    for split in splits:
        for row in named(output, split):
            found[row["uid"]].append((*filter(None, row["item_sequence"]), row["item"]))
    return found


@pytest.mark.parametrize("context", ["", "view", "view,cart"])
def test_targets_are_of_their_kinds_after_the_context_before_them(tmp_path: Path, context: str) -> None:
    given = {"target_kinds": "purchase", "context_kinds": context, "negatives": "none", "training_targets": "windows"}
    found = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **given)
    wanted = expected("purchase", tuple(context.split(",")) if context else KINDS)
    assert samples(found, "test") == {user: each[-1:] for user, each in wanted.items()}
    assert samples(found, "train") == {user: each[:-1] for user, each in wanted.items() if each[1:]}


def test_a_cut_in_time_leaves_its_share_of_the_targets(tmp_path: Path) -> None:
    given = {"target_kinds": "purchase", "split": "time", "test_reviews": 0.25, "validation_reviews": 0.2}
    found = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **given, negatives="none")
    times = sorted(time for _, _, time, kind in EVENTS if kind == "purchase")
    sampling = load_feature_spec(found).metadata["encoding"]["sampling"]
    assert sampling["test_begin"] == times[int(len(times) * 0.75)] * 10**9
    assert (sampling["target_kinds"], sampling["seen_items"]) == (["purchase"], "keep")


def test_negatives_follow_targets_of_their_kinds(tmp_path: Path) -> None:
    given = {"target_kinds": "purchase", "context_kinds": "view", "seen_items": "exclude"}
    found = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **given)
    rows = named(found, "train")
    wanted = Counter(each for of_user in expected("purchase", ("view",)).values() for each in of_user[:-1])
    assert rows
    for positive, negative in zip(rows[::2], rows[1::2], strict=True):
        assert (positive["label"], negative["label"]) == (1, 0)
        assert positive["item_sequence"] == negative["item_sequence"]
        assert (*filter(None, positive["item_sequence"]), positive["item"]) in wanted
        assert positive["item"] not in positive["item_sequence"]
        assert negative["item"] not in (*positive["item_sequence"], positive["item"])


def test_kinds_that_no_parameter_names_add_a_column_that_no_model_reads(tmp_path: Path) -> None:
    with_kinds = made(tmp_path / "with", {"e.csv": csv(EVENTS, HEADER)})
    without = made(tmp_path / "without", {"e.csv": csv((event[:3] for event in EVENTS), "user,item,timestamp")})
    for split in ("train", "test"):
        assert pq.read_table(with_kinds / split).drop_columns("kind").equals(pq.read_table(without / split))


@pytest.mark.parametrize("negatives", ["none", "popularity"])
def test_a_sample_tells_the_kind_of_its_target(tmp_path: Path, negatives: str) -> None:
    # Half of the events have no kind.
    rows = [(*event[:3], event[3] if number % 2 else "") for number, event in enumerate(EVENTS)]
    given = {"seen_items": "keep", "negatives": negatives, "max_sequence_length": 40}
    found = made(tmp_path, {"e.csv": csv(rows, HEADER)}, **given)
    spec = load_feature_spec(found)
    assert spec.channels[Channel.KIND] == ("kind",)
    kinds = names_of(spec, "kind", np.arange(4)) | {0: ""}
    by_place = {(user, (time // DAY) % 40): kind for user, _, time, kind in rows}
    told = named(found, "train") + named(found, "test")
    assert len(told) == 40 * 11 * (1 if negatives == "none" else 2)
    for row in told:
        assert kinds[row["kind"]] == by_place[row["uid"], sum(item is not None for item in row["item_sequence"])]


@pytest.mark.parametrize("given", [{"target_kinds": "purchase"}, {"kind_column": ""}])
def test_targets_of_one_kind_or_of_none_are_not_told_apart(tmp_path: Path, given: dict[str, Any]) -> None:
    found = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **given)
    assert Channel.KIND not in load_feature_spec(found).channels
    assert "kind" not in pq.read_schema(next((found / "test").iterdir())).names


def test_the_filters_tell_what_kinds_take(tmp_path: Path) -> None:
    given = {"target_kinds": "purchase", "context_kinds": "view", "negatives": "none"}
    noted = load_feature_spec(made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **given)).metadata["encoding"]["filters"]
    kinds = Counter(kind for *_, kind in EVENTS)
    assert noted["kinds"]["events"] == kinds["cart"]
    assert noted["target_kinds"]["events"] == kinds["view"]
    assert noted["targets"]["events"] == sum(map(len, expected("purchase", ("view",)).values()))
    assert sum(each["users"] for name, each in noted.items() if name != "unknown") == 40


WEIGHTS = {"view": 0.25, "cart": 0.0, "purchase": 2.0}
WEIGHED = {"kind_weights": "view=0.25, cart=0, purchase=2"}


@pytest.mark.parametrize("split", ["last_item", "time"])
def test_items_count_by_the_weights_of_their_events(tmp_path: Path, split: str) -> None:
    found = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, split=split, negative_window=36_500.0, **WEIGHED)
    cut = load_feature_spec(found).metadata["encoding"]["sampling"].get("train_end", float("inf"))
    counts: defaultdict[str, float] = defaultdict(float)
    for _, item, time, kind in EVENTS:
        counts[item] += WEIGHTS[kind] * (time * 10**9 < cut)
    for row in pq.read_table(found / "vocabulary" / "item.parquet").to_pylist():
        assert (row["reviews"], row["count"]) == (counts[row["value"]], counts[row["value"]])


@pytest.mark.parametrize("negatives", ["popularity", "contemporary"])
def test_negatives_are_drawn_by_the_weights_of_their_events(tmp_path: Path, negatives: str) -> None:
    given = {"negatives": negatives, "negative_window": 36_500.0, **WEIGHED}
    found = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **given)
    drawn = Counter(row["item"] for row in named(found, "train") if not row["label"])
    weights: defaultdict[str, float] = defaultdict(float)
    for _, item, _, kind in EVENTS:
        weights[item] += WEIGHTS[kind]
    shares = {item: weight / sum(weights.values()) for item, weight in weights.items()}
    # Of some 400 draws; events without weights have shares of 0.04.
    assert sum(abs(drawn[item] / drawn.total() - share) for item, share in shares.items()) < 0.35
    only_in_carts = {item for item, weight in weights.items() if not weight}
    assert not only_in_carts & drawn.keys()


def test_a_column_of_weights_counts_as_weights_of_kinds_do(tmp_path: Path) -> None:
    by_kind = made(tmp_path / "kinds", {"e.csv": csv(EVENTS, HEADER)}, **WEIGHED)
    rows = [(*event, WEIGHTS[event[3]]) for event in EVENTS]
    by_column = made(tmp_path / "column", {"e.csv": csv(rows, f"{HEADER},amount")}, weight_column="amount")
    for folder in ("train", "test", "vocabulary"):
        for path in (by_kind / folder).iterdir():
            assert pq.read_table(path).equals(pq.read_table(by_column / folder / path.name))


@pytest.mark.parametrize("weights", ["view", "view=much", "view=-1", "=1"])
def test_weights_that_are_none_are_one_line(tmp_path: Path, weights: str) -> None:
    told = error_of(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, kind_weights=weights)
    assert told == (
        f"parameter kind_weights={weights!r}: give kinds a weight of at least 0 each, such as view=0.2,purchase=1"
    )


def test_rows_with_a_weight_that_is_none_are_refused(tmp_path: Path) -> None:
    rows = [(user, item, time, -1) for user, item, time, _ in EVENTS]
    told = error_of(tmp_path, {"e.csv": csv(rows, "user,item,timestamp,amount")}, weight_column="amount")
    assert "amount" in told and "no weight of at least 0" in told


@pytest.mark.parametrize(
    ("header", "parameters", "told"),
    [
        (HEADER, {"target_kinds": "buy"}, "target_kinds: no event is of the kind 'buy'; column event has "),
        (HEADER, {"kind_weights": "buy=1"}, "kind_weights: no event is of the kind 'buy'; column event has "),
        (HEADER, {"context_kinds": "view, see"}, "context_kinds: no event is of the kind 'see'; column event has "),
        (
            "user,item,timestamp,action",
            {"target_kinds": "purchase"},
            "target_kinds: {folder}/e.csv has no column 'event'; name the column of the kinds with kind_column",
        ),
        ("user,item,timestamp,action", {"kind_column": "kind"}, "has no column 'kind'"),
    ],
)
def test_what_is_no_kind_is_one_line(tmp_path: Path, header: str, parameters: dict[str, Any], told: str) -> None:
    table = {"e.csv": csv(EVENTS, header)}
    assert told.format(folder=tmp_path / "raw") in error_of(tmp_path, table, **parameters)


def test_a_column_of_other_things_than_kinds_is_named(tmp_path: Path) -> None:
    table = csv(((user, item, time, number) for number, (user, item, time, _) in enumerate(EVENTS)), HEADER)
    assert "kind_column='event': the column has more than 127 kinds" in error_of(tmp_path, {"e.csv": table})


@pytest.mark.parametrize(
    ("given", "excluded"),
    [
        ({}, True),
        ({"split": "last_item"}, False),
        ({"split": "last_item", "negatives": "none"}, True),
        ({"target_kinds": "purchase"}, False),
        ({"target_kinds": "purchase", "context_kinds": "purchase"}, True),
        ({"target_kinds": "purchase", "seen_items": "exclude"}, True),
    ],
)
def test_seen_items_are_excluded_but_as_published_and_from_other_kinds(given: dict[str, Any], excluded: bool) -> None:
    assert STEPS["preprocess"].of(dataset="events", **given).excludes_seen == excluded


LOSS = {**WEIGHED, "weighted_loss": True, "seen_items": "keep"}


def weight_at(user: str, item: str) -> set[float]:
    """The weights of a user's events of an item."""
    return {WEIGHTS[kind] for name, chosen, _, kind in EVENTS if (name, chosen) == (user, item)}


def test_a_sample_has_the_weight_of_its_target(tmp_path: Path) -> None:
    found = made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **LOSS)
    spec, rows = load_feature_spec(found), named(found, "train")
    assert spec.channels[Channel.WEIGHT] == ("weight",) and spec.features["weight"].is_float
    for positive, negative in zip(rows[::2], rows[1::2], strict=True):
        assert positive["weight"] == negative["weight"]
        assert positive["weight"] in weight_at(positive["uid"], positive["item"])
    assert {row["weight"] for row in rows} == set(WEIGHTS.values())


def test_a_window_has_the_weights_of_its_items_and_of_its_target(tmp_path: Path) -> None:
    given = {"negatives": "none", "training_targets": "windows", **LOSS}
    rows = named(made(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, **given), "train")
    assert rows
    for row in rows:
        for item, weight in zip((*row["item_sequence"], row["item"]), row["weight_sequence"], strict=True):
            assert weight in (weight_at(row["uid"], item) if item else {0.0})


def test_a_weighted_loss_without_weights_is_one_line(tmp_path: Path) -> None:
    assert "name weights with kind_weights" in error_of(tmp_path, {"e.csv": csv(EVENTS, HEADER)}, weighted_loss=True)
