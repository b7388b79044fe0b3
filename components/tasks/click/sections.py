"""The report's sections for a click-through-rate model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from components.report import Axis, Card, Figure, Line, Section, Story, bar_chart, line_chart
from components.tasks.definition import Measured

_UNIT = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


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
        [_roc(curves["roc"], metrics), _precision_recall(curves["pr"], metrics), *_histories(metrics)],
    )
    probabilities = Section(
        "Probabilities",
        "Whether the scores can be read as probabilities, as bidding and blending do.",
        [_calibration(curves["calibration"], metrics), _scores(curves["scores"])],
    )
    return Story(f"Test AUC {auc:.4f}", lead, _cards(metrics), [ranking, probabilities], _data(metrics))


def _cards(metrics: Mapping[str, Any]) -> list[Card]:
    rate = metrics["test_positive_rate"]
    cards = [
        Card("ROC AUC", metrics["test_auc"], f"{metrics['test_auc_low']:.4f} to {metrics['test_auc_high']:.4f}", True),
        Card("Log loss", metrics["test_logloss"], "nats a sample; 0.693 is a coin"),
        Card("PR AUC", metrics["test_pr_auc"], f"guessing gives {rate:.3f}"),
    ]
    if metrics.get("test_grouped_auc") is not None:
        users, left_out = metrics["test_grouped_auc_users"], metrics["test_grouped_auc_users_left_out"]
        cards.append(Card("AUC per user", metrics["test_grouped_auc"], f"{users:,} users, {left_out:,} left out"))
    cards.append(Card("Calibration error", metrics["test_calibration_error"], "mean gap of predicted and observed"))
    cards.append(Card("Observed / predicted", metrics["test_calibration_ratio"], "1 is right on average"))
    return cards


def _data(metrics: Mapping[str, Any]) -> dict[str, str]:
    confusion = metrics["confusion"]
    (tn, fp), (fn, tp) = confusion["matrix"]
    return {
        "test rows": f"{metrics['test_rows']:,}",
        "test rows clicked": f"{metrics['test_positive_rate']:.2%}",
        f"called a click at {confusion['threshold']:g}": f"{tp:,} rightly, {fp:,} wrongly",
        "called no click": f"{tn:,} rightly, {fn:,} wrongly",
    }


def _roc(curve: Mapping[str, Any], metrics: Mapping[str, Any]) -> Figure:
    lines = [
        Line("guessing", (0, 1), (0, 1), "rule"),
        Line("model", curve["false_positive_rate"], curve["true_positive_rate"], area=True),
    ]
    x, y = Axis("false positive rate", 0, 1, _UNIT), Axis("true positive rate", 0, 1, _UNIT)
    fpr, tpr = curve["false_positive_rate"], curve["true_positive_rate"]
    caught = max((t for f, t in zip(fpr, tpr, strict=True) if f <= 0.1), default=0.0)
    note = f"At a false alarm in 10 of 100 others, the model finds {100 * caught:.0f} of 100 clicks."
    return Figure(f"ROC curve, area {metrics['test_auc']:.3f}", line_chart(lines, x, y), note)


def _precision_recall(curve: Mapping[str, Any], metrics: Mapping[str, Any]) -> Figure:
    rate = metrics["test_positive_rate"]
    lines = [
        Line("guessing", (0, 1), (rate, rate), "rule"),
        Line("model", curve["recall"], curve["precision"], area=True),
    ]
    x, y = Axis("recall", 0, 1, _UNIT), Axis("precision", 0, 1, _UNIT)
    note = f"The share of clicks among what is called a click, against the share of all clicks found; {rate:.1%} click."
    return Figure(f"Precision and recall, area {metrics['test_pr_auc']:.3f}", line_chart(lines, x, y), note)


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


def _calibration(curve: Mapping[str, Any], metrics: Mapping[str, Any]) -> Figure:
    predicted, observed = curve["predicted"], curve["observed"]
    top = min(1.0, max(*predicted, *observed) * 1.05)
    lines = [
        Line("perfect", (0, top), (0, top), "rule"),
        Line("model", predicted, observed, dots=True),
    ]
    ratio = metrics["test_calibration_ratio"]
    told = "as many clicks as predicted"
    if ratio is not None and abs(ratio - 1) >= 0.005:
        told = f"{abs(ratio - 1):.1%} {'more' if ratio > 1 else 'fewer'} clicks than predicted"
    note = f"Each dot is a bin of equally many samples. Overall there were {told}."
    chart = line_chart(lines, Axis("predicted", 0, top), Axis("observed", 0, top))
    return Figure(f"Calibration, error {curve['error']:.3f}", chart, note)


def _scores(densities: Mapping[str, Any]) -> Figure:
    edges = densities["edges"]
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    lines = [
        Line("not clicked", middles, densities["negative"], "two", area=True),
        Line("clicked", middles, densities["positive"], "one", area=True),
    ]
    highest = max(*densities["negative"], *densities["positive"])
    chart = line_chart(lines, Axis("score", 0, 1, _UNIT), Axis("share of the class", 0, highest * 1.08))
    return Figure("Scores of each class", chart, "The less the two overlap, the better they are told apart.")
