"""The report's sections for a ranking model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.report import Axis, Card, Figure, Line, Section, Story, bar_chart, line_chart, spanning
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
from components.tasks.definition import Measured
from components.tasks.ranking import MAP
from components.tasks.report import controls_section, interval_card, range_name, true_figure


def story(measured: Measured) -> Story:
    """The report of a ranking model."""
    metrics, curves = measured.metrics, measured.curves
    k, value = metrics["test_map_k"], metrics["test_map"]
    lead = (
        f"MAP@{k} is 1 where the clicked sample of each group stands first, 1/2 where it stands second, and so on; "
        f"guessing gives {metrics['test_map_of_guessing']:.4f}. With {metrics['test_groups']:,} groups, "
        f"{true_figure(metrics, 'test_map', '{:.4f}'.format)}."
    )
    within = Section(
        "Within groups",
        "Where the clicked sample of a group stands among the group's samples.",
        [_by_cut(curves["map"]), _by_size(metrics["by_group_size"], k)],
    )
    overall = Section(
        "Over all samples",
        "Whether samples that were clicked score above those that were not, in their group or another.",
        [roc_figure(curves["roc"], metrics), precision_recall_figure(curves["pr"], metrics)],
    )
    groups = {
        "groups": f"{metrics['test_groups']:,}",
        "groups without a click, left out": f"{metrics['test_groups_left_out']:,}",
    }
    return Story(
        f"Test MAP@{k} {value:.4f}",
        lead,
        _cards(metrics),
        [importance_section(metrics), within, overall, probabilities_section(curves, metrics)],
        {**sample_counts(metrics), **groups},
        [controls_section(metrics, MAP.at(metrics), COLUMN_CONTROLS, metrics["test_map_of_guessing"])],
    )


def _cards(metrics: Mapping[str, Any]) -> list[Card]:
    return [
        interval_card(f"MAP@{metrics['test_map_k']}", metrics, "test_map", main=True),
        interval_card("ROC AUC", metrics, "test_auc"),
        *loss_cards(metrics),
        Card("Accuracy", metrics["test_accuracy"], f"saying no gives {1 - metrics['test_positive_rate']:.4f}"),
        *calibration_cards(metrics),
    ]


def _by_cut(curve: Mapping[str, Any]) -> Figure:
    lines = [
        Line("guessing", curve["k"], curve["guessing"], "rule"),
        Line("model", curve["k"], curve["model"], dots=True),
    ]
    last = float(curve["k"][-1])
    ticks = tuple(float(k) for k in curve["k"][:: max(1, len(curve["k"]) // 8)])
    chart = line_chart(
        lines, Axis("k", 0.8, last + 0.2, ticks), spanning("MAP@k", [*curve["guessing"], *curve["model"]])
    )
    note = f"In {100 * curve['model'][0]:.0f} of 100 groups a clicked sample stands first; guessing puts one there in "
    return Figure("MAP@k by k", chart, f"{note}{100 * curve['guessing'][0]:.0f}.")


def _by_size(buckets: Sequence[Mapping[str, Any]], k: int) -> Figure:
    names = [range_name(bucket) for bucket in buckets]
    notes = [f"guess {bucket['guessing']:.2f}" for bucket in buckets]
    values = [bucket["map"] for bucket in buckets]
    chart = bar_chart(names, values, notes, "samples in the group", Axis(f"MAP@{k}", 0, max(values) * 1.12))
    return Figure(
        f"MAP@{k} by size of group", chart, "Larger groups are harder; below each bar stands what guessing gives."
    )
