"""The report's sections for a model that finds the next item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.contract import LONGEST_LIST
from components.report import Axis, Card, Figure, Section, Story, bar_chart
from components.tasks.catalogue import catalogue_sections
from components.tasks.controls import BASELINE
from components.tasks.definition import Measured
from components.tasks.next_item import COUNT_PAIRS, NDCG
from components.tasks.next_item.baselines import POPULARITY
from components.tasks.report import Control, controls_section, interval_card, simple_rule

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
}


def story(measured: Measured) -> Story:
    """The report."""
    metrics = measured.metrics
    k, level = metrics["test_list_length"], f"{100 * metrics['test_confidence']:.0f} %"
    lead = (
        f"Of the items that users chose next, {metrics['test_hr']:.1%} stand among the first {k} of all items that "
        f"can be listed. With {metrics['test_rows']:,} test samples, the true figure lies between "
        f"{metrics['test_hr_low']:.1%} and {metrics['test_hr_high']:.1%} ({level} confidence)."
    )
    found = Section(
        "Where the chosen item stands",
        "A first stage hands a list of candidates to a ranking model, which cannot find what the list lacks.",
        [_by_length(measured.curves["hits"])],
    )
    return Story(
        f"Test NDCG@{k} {metrics['test_ndcg']:.4f}",
        lead,
        _cards(metrics),
        [found, *catalogue_sections(metrics)],
        {"test samples": f"{metrics['test_rows']:,}"},
        [controls_section(metrics, NDCG, _CONTROLS, 0.0)],
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


def _by_length(curve: Mapping[str, Any]) -> Figure:
    values, names = curve["model"], [f"{k:,}" for k in curve["k"]]
    chart = bar_chart(names, values, [""] * len(names), "length of the list", Axis("HR", 0, max(values) * 1.12 or 1.0))
    return Figure("Share of the chosen items in the list", chart, "Of all items that can be listed.")
