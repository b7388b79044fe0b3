"""The report's sections for a model that finds the next item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components.contract import LONGEST_LIST
from components.metrics import CONFIDENCE, FEWEST
from components.report import Axis, Card, Figure, Section, Story, bar_chart, table
from components.tasks.catalogue import catalogue_sections
from components.tasks.controls import BASELINE, RECENT_POPULARITY, against_baseline, beats_baseline
from components.tasks.definition import Measured
from components.tasks.importance import costs_only, importance_section
from components.tasks.next_item import COUNT_PAIRS, NDCG
from components.tasks.next_item.baselines import POPULARITY
from components.tasks.report import (
    Control,
    controls_section,
    interval_card,
    range_figures,
    simple_rule,
    true_figure,
    with_interval,
)

_CONTROLS = {
    BASELINE: Control(
        "built-in baseline",
        "What other users chose soon after the newest items of the history.",
        "The model is above it: it has learned more than pairs of items.",
        f"The difference to the model may be chance; {COUNT_PAIRS}.",
        f"The model is below it: pairs of items do better; {COUNT_PAIRS}.",
    ),
    POPULARITY: simple_rule(
        "popularity alone", "How often each item occurs in the training samples.", "This one number does"
    ),
    RECENT_POPULARITY: simple_rule(
        "popularity of the last days",
        "How often each item occurs in the last popularity_days of the training data.",
        "This one number does",
    ),
}


def story(measured: Measured) -> Story:
    """The report."""
    metrics = measured.metrics
    k = metrics["test_list_length"]
    lead = (
        f"Of the items that users chose next, {metrics['test_hr']:.1%} stand among the first {k} of all items that "
        f"can be listed. With {metrics['test_rows']:,} test samples, "
        f"{true_figure(metrics, 'test_hr', '{:.1%}'.format)}."
    )
    lead += "".join(f" {each[0].upper()}{each[1:]}." for each in against_baseline(metrics, NDCG.at(metrics)))
    beaten = ""
    if f"test_{NDCG.name}_above_{BASELINE}" in metrics:
        beaten = f", {'' if beats_baseline(metrics, NDCG) else 'not '}above the built-in baseline"
    found = Section(
        "Where the chosen item stands",
        "A first stage hands a list of candidates to a ranking model, which cannot find what the list lacks.",
        [_by_length(measured.curves["hits"])],
    )
    metric = NDCG.at(metrics)
    columns = importance_section(
        metrics, metric, "if a column of the events has the values of other events", costs_only(metrics, metric)
    )
    return Story(
        f"Test NDCG@{k} {metrics['test_ndcg']:.4f}{beaten}",
        lead,
        _cards(metrics),
        [found, columns, _groups(metrics), *catalogue_sections(metrics)],
        {"test samples": f"{metrics['test_rows']:,}"},
        [controls_section(metrics, metric, _CONTROLS, 0.0)],
    )


def _cards(metrics: Mapping[str, Any]) -> list[Card]:
    k, median = metrics["test_list_length"], metrics["test_median_rank"]
    return [
        interval_card(f"NDCG@{k}", metrics, "test_ndcg", main=True),
        interval_card(f"HR@{k}", metrics, "test_hr"),
        Card(
            "Mean reciprocal rank",
            metrics["test_mean_reciprocal_rank"],
            f"median rank {median:,.0f}" if median <= LONGEST_LIST else f"median rank above {LONGEST_LIST:,}",
        ),
        Card("Log-likelihood", metrics["test_log_likelihood"], "mean logarithm of the chosen item's probability"),
    ]


def _groups(metrics: Mapping[str, Any]) -> Section:
    """NDCG by group; without figures if the data have no groups."""
    shares = [
        f"{metrics[name]:.1%} of the samples are of {what}."
        for name, what in (
            ("test_new_items", "new items, which no training sample has and no list finds"),
            ("test_new_users", "new users, whom the training does not know"),
        )
        if name in metrics
    ]
    return Section(
        "New items, new users, popularity",
        f"{' '.join(shares)} Bands are of {100 * CONFIDENCE:g} % confidence; a group in which fewer than {FEWEST} "
        "users' items are found has none. Some groups are harder by themselves: compare two models on a group rather "
        "than two groups.",
        [
            *_users(metrics.get("by_user") or (), metrics["test_list_length"]),
            *_kinds(metrics.get("by_kind") or (), metrics["test_list_length"]),
            *_new_ids(metrics.get("by_new_ids") or (), metrics["test_list_length"]),
            *range_figures(
                metrics.get("by_popularity") or (),
                NDCG.at(metrics),
                0.0,
                "NDCG by popularity of the chosen item",
                "times in the training data",
                "From new items to the most frequent ones, in groups of about equally many samples.",
            ),
            *range_figures(
                metrics.get("by_history_length") or (),
                NDCG.at(metrics),
                0.0,
                "NDCG by length of history",
                "items in the history",
                "What the model gains from knowing more of a user.",
            ),
        ],
    )


def _users(groups: Sequence[Mapping[str, Any]], k: int) -> Iterator[Figure]:
    note = "New users are those without an event in the training data; their histories are read all the same."
    yield from _named_groups("Returning and new users", "users", groups, k, note)


def _kinds(groups: Sequence[Mapping[str, Any]], k: int) -> Iterator[Figure]:
    note = "The kind of the event by which the item was chosen, such as a view or a purchase."
    yield from _named_groups("Kinds of events", "kind", groups, k, note)


def _new_ids(groups: Sequence[Mapping[str, Any]], k: int) -> Iterator[Figure]:
    note = "Samples whose user, item or category got its row of an embedding table last night, and all others."
    yield from _named_groups(f"NDCG@{k} on newly admitted ids", "category", groups, k, note)


def _named_groups(title: str, name: str, groups: Sequence[Mapping[str, Any]], k: int, note: str) -> Iterator[Figure]:
    """Groups whose name is the entry ``name``."""
    if not groups:
        return
    rows = [
        (
            group[name],
            f"{group['rows']:,}",
            with_interval({**group, "ndcg_low": group["low"], "ndcg_high": group["high"]}, "ndcg"),
            with_interval(group, "hr", ".3f"),
        )
        for group in groups
    ]
    head = ("users" if name == "users" else "samples of", "samples", f"NDCG@{k}", f"HR@{k}")
    yield Figure(title, table(head, rows), note)


def _by_length(curve: Mapping[str, Any]) -> Figure:
    # Lists that hold every item are alike.
    rising = [at for at, value in enumerate(curve["model"]) if at == 0 or value > curve["model"][at - 1]]
    values, names = curve["model"][: rising[-1] + 1], [f"{k:,}" for k in curve["k"][: rising[-1] + 1]]
    chart = bar_chart(names, values, [""] * len(names), "length of the list", Axis("HR", 0, max(values) * 1.12 or 1.0))
    return Figure("Share of the chosen items in the list", chart, "Of all items that can be listed.")
