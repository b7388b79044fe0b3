"""The report's sections for a click-through-rate model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.metrics import FEWEST
from components.report import Axis, Card, Figure, Section, Story, bar_chart, table
from components.tasks.binary.columns import BEST_COLUMN
from components.tasks.binary.controls_report import COLUMN_CONTROLS
from components.tasks.binary.figures import (
    auc_card,
    calibration_cards,
    loss_cards,
    precision_recall_figure,
    probabilities_section,
    roc_figure,
    sample_counts,
)
from components.tasks.binary.importance import importance_section
from components.tasks.catalogue import catalogue_sections
from components.tasks.click import AUC
from components.tasks.click.controls_report import HISTORY_CONTROLS
from components.tasks.controls_report import rests_section
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
        [roc_figure(curves["roc"], metrics), precision_recall_figure(curves["pr"], metrics)],
    )
    return Story(
        f"Test AUC {auc:.4f}",
        lead,
        _cards(metrics),
        [
            importance_section(metrics),
            ranking,
            *catalogue_sections(metrics),
            _groups(metrics),
            probabilities_section(curves, metrics),
        ],
        sample_counts(metrics),
        [rests_section(metrics, AUC, COLUMN_CONTROLS if BEST_COLUMN in metrics else HISTORY_CONTROLS, 0.5)],
    )


def _cards(metrics: Mapping[str, Any]) -> list[Card]:
    cards = [auc_card(metrics, main=True), *loss_cards(metrics)]
    if metrics.get("test_grouped_auc") is not None:
        users, left_out = metrics["test_grouped_auc_users"], metrics["test_grouped_auc_users_left_out"]
        cards.append(Card("AUC per user", metrics["test_grouped_auc"], f"{users:,} users, {left_out:,} left out"))
    return cards + calibration_cards(metrics)


def _groups(metrics: Mapping[str, Any]) -> Section:
    """AUC by group; without figures if the data have no groups."""
    level = f"{100 * metrics['test_auc_confidence']:.0f} %"
    return Section(
        "Groups of samples",
        f"AUC within each group, of its own clicks over its own other samples, with {level} confidence bands. Some "
        "groups are harder by themselves: compare two models on a group rather than two groups. One with fewer than "
        f"{FEWEST} users (or samples, where the data have no users) of either class shows no AUC.",
        [
            *_ranges(
                metrics.get("by_history_length") or (),
                "AUC by length of history",
                "items in the history",
                "What the model gains from knowing more of a user; 0.5 is guessing.",
            ),
            *_ranges(
                metrics.get("by_popularity") or (),
                "AUC by popularity of the candidate",
                "times in the histories of the test samples",
                "From candidates that no history has to the most frequent ones, in groups of about equally many "
                "samples; 0.5 is guessing.",
            ),
            *_categories(metrics.get("by_category") or ()),
        ],
    )


def _ranges(groups: Sequence[Mapping[str, Any]], title: str, x: str, note: str) -> Iterable[Figure]:
    if not any(_is_known(group) for group in groups):
        return
    names = [
        f"{group['from']:,}" if group["from"] == group["to"] else f"{group['from']:,}–{group['to']:,}"
        for group in groups
    ]
    values = [group["auc"] if _is_known(group) else None for group in groups]
    bands = [(group["low"], group["high"]) if _is_known(group) else None for group in groups]
    notes = [f"{group['rows']:,} rows" if _is_known(group) else f"{group['rows']:,}: too few" for group in groups]
    ends = [end for band in bands if band for end in band]
    low, high = min(0.5, *ends), max(ends)
    chart = bar_chart(names, values, notes, x, Axis("AUC", low, high + (high - low) * 0.12), bands)
    yield Figure(title, chart, note)


def _categories(groups: Sequence[Mapping[str, Any]]) -> Iterable[Figure]:
    if not any(_is_known(group) for group in groups):
        return
    rows = [
        (
            f"{group['pooled']:,} others" if "pooled" in group else str(group["category"]),
            f"{group['rows']:,}",
            f"{group['clicked']:,}",
            f"{group['auc']:.3f}" if _is_known(group) else _why_unknown(group),
            f"{group['low']:.3f} to {group['high']:.3f}" if _is_known(group) else "",
        )
        for group in groups
    ]
    yield Figure(
        "AUC by category of the candidate",
        table(("category", "rows", "clicked", "AUC", "band"), rows),
        "The categories with most test samples. The last row pools all others, so it also ranks across categories."
        if "pooled" in groups[-1]
        else "Every category of the test samples.",
    )


def _is_known(group: Mapping[str, Any]) -> bool:
    return group["low"] is not None


def _why_unknown(group: Mapping[str, Any]) -> str:
    if group["auc"] is None:
        return "all clicked" if group["clicked"] else "none clicked"
    return "too few"
