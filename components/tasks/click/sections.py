"""The report's sections for a click-through-rate model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.metrics import FEWEST
from components.report import Card, Figure, Section, Story, table
from components.tasks.binary.columns import BEST_COLUMN
from components.tasks.binary.figures import (
    COLUMN_CONTROLS,
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
from components.tasks.click.baselines import POPULARITY, RECENCY
from components.tasks.click.measure import EMPTY_HISTORY, OTHER_HISTORY, UNKNOWN_USER
from components.tasks.controls import BASELINE, RECENT_POPULARITY
from components.tasks.definition import Measured
from components.tasks.report import Control, controls_section, interval_card, range_figures, simple_rule, true_figure

HISTORY_CONTROLS = {
    BASELINE: Control(
        "built-in baseline",
        "A logistic regression on counts of the history, popularity and history length.",
        "The model is above it: it has learned more than these counts.",
        "The difference to the model may be chance.",
        "The model is below it: the counts do better.",
    ),
    RECENCY: simple_rule(
        "recency alone",
        "How often the history has the candidate's category, recent items counting more.",
        "This one number does",
    ),
    POPULARITY: simple_rule("popularity alone", "How often the candidate occurs in the data.", "This one number does"),
    RECENT_POPULARITY: simple_rule(
        "popularity of the last days",
        "How often the candidate occurs in the last popularity_days of the training data.",
        "This one number does",
    ),
    OTHER_HISTORY: Control(
        "another user's history",
        "The model, with histories exchanged between users.",
        "It loses: its score rests on the user's own history.",
        "It loses little or nothing: whose history it reads does not matter.",
        "It gains: the user's own history misleads it.",
    ),
    EMPTY_HISTORY: Control(
        "empty history",
        "The model, without any history.",
        "It loses: what is left comes from the candidate and the user's id.",
        "It loses little or nothing: it does not use histories.",
        "It gains: histories mislead it.",
    ),
    UNKNOWN_USER: Control(
        "unknown user",
        "The model, with the id of an unknown user.",
        "It loses: a part of its score is memorised users, which new users lack.",
        "It loses little or nothing: it does not rest on the user's id.",
        "It gains: memorised users mislead it.",
    ),
}


def story(measured: Measured) -> Story:
    """The report of a click-through-rate model."""
    metrics, curves = measured.metrics, measured.curves
    auc = metrics["test_auc"]
    lead = (
        f"Given one clicked and one other sample, the model puts the clicked one first {100 * auc:.1f} times in 100. "
        f"With {metrics['test_rows']:,} test samples, {metrics['test_positives']:,} of them clicked, "
        f"{true_figure(metrics, 'test_auc', lambda end: f'{100 * end:.1f}')}."
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
        [controls_section(metrics, AUC, COLUMN_CONTROLS if BEST_COLUMN in metrics else HISTORY_CONTROLS, 0.5)],
    )


def _cards(metrics: Mapping[str, Any]) -> list[Card]:
    cards = [interval_card("ROC AUC", metrics, "test_auc", main=True), *loss_cards(metrics)]
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
            *range_figures(
                metrics.get("by_history_length") or (),
                AUC,
                0.5,
                "AUC by length of history",
                "items in the history",
                "What the model gains from knowing more of a user; 0.5 is guessing.",
            ),
            *range_figures(
                metrics.get("by_popularity") or (),
                AUC,
                0.5,
                "AUC by popularity of the candidate",
                "times in the histories of the test samples",
                "From candidates that no history has to the most frequent ones, in groups of about equally many "
                "samples; 0.5 is guessing.",
            ),
            *_categories(
                metrics.get("by_category") or (),
                "AUC by category of the candidate",
                "category",
                "Every category of the test samples.",
            ),
            *_categories(
                metrics.get("by_new_ids") or (),
                "AUC on newly admitted ids",
                "samples",
                "Samples with an id that got its row of an embedding table last night, and all others.",
            ),
        ],
    )


def _categories(groups: Sequence[Mapping[str, Any]], title: str, what: str, note: str) -> Iterable[Figure]:
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
        title,
        table((what, "rows", "clicked", "AUC", "band"), rows),
        "The categories with most test samples. The last row pools all others, so it also ranks across categories."
        if "pooled" in groups[-1]
        else note,
    )


def _is_known(group: Mapping[str, Any]) -> bool:
    return group["low"] is not None


def _why_unknown(group: Mapping[str, Any]) -> str:
    if group["auc"] is None:
        return "all clicked" if group["clicked"] else "none clicked"
    return "too few"
