"""The report's sections for a click-through-rate model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from components.report import Axis, Card, Figure, Section, Story, bar_chart
from components.tasks.binary.figures import (
    auc_card,
    calibration_cards,
    loss_cards,
    precision_recall_figure,
    probabilities_section,
    roc_figure,
    sample_counts,
)
from components.tasks.definition import Measured


def story(measured: Measured) -> Story:
    """The report of a click-through-rate model."""
    metrics, curves = measured.metrics, measured.curves
    auc, low, high = metrics["test_auc"], metrics["test_auc_low"], metrics["test_auc_high"]
    lead = (
        f"Given one clicked and one other sample, the model puts the clicked one first {100 * auc:.1f} times in 100. "
        f"With {metrics['test_rows']:,} test samples, the true figure lies between {100 * low:.1f} and "
        f"{100 * high:.1f} ({100 * metrics['test_auc_confidence']:.0f} % confidence)."
    )
    ranking = Section(
        "Ranking",
        "Whether samples that were clicked score above those that were not, whatever the scores themselves.",
        [roc_figure(curves["roc"], metrics), precision_recall_figure(curves["pr"], metrics), *_histories(metrics)],
    )
    return Story(
        f"Test AUC {auc:.4f}",
        lead,
        _cards(metrics),
        [ranking, probabilities_section(curves, metrics)],
        sample_counts(metrics),
    )


def _cards(metrics: Mapping[str, Any]) -> list[Card]:
    cards = [auc_card(metrics, main=True), *loss_cards(metrics)]
    if metrics.get("test_grouped_auc") is not None:
        users, left_out = metrics["test_grouped_auc_users"], metrics["test_grouped_auc_users_left_out"]
        cards.append(Card("AUC per user", metrics["test_grouped_auc"], f"{users:,} users, {left_out:,} left out"))
    return cards + calibration_cards(metrics)


def _histories(metrics: Mapping[str, Any]) -> Iterable[Figure]:
    buckets = metrics.get("by_history_length") or ()
    values = [bucket["auc"] for bucket in buckets]
    known = [value for value in values if value is not None]
    if not known:
        return
    names = [
        str(bucket["to"]) if bucket["from"] == bucket["to"] else f"{bucket['from']}–{bucket['to']}"
        for bucket in buckets
    ]
    notes = [f"{bucket['rows']:,} rows" for bucket in buckets]
    low, high = min(0.5, *known), max(known)
    chart = bar_chart(names, values, notes, "items in the history", Axis("AUC", low, high + (high - low) * 0.12 or 0.6))
    yield Figure(
        "AUC by length of history", chart, "What the model gains from knowing more of a user; 0.5 is guessing."
    )
