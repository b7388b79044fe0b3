"""Charts and numbers of a binary outcome, for a task's report."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from components.report import Axis, Card, Figure, Line, Section, line_chart

_UNIT = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def probabilities_section(curves: Mapping[str, Any], metrics: Mapping[str, Any]) -> Section:
    """Calibration, and the distribution of scores per class."""
    return Section(
        "Probabilities",
        "Whether the scores can be read as probabilities, as bidding and blending do.",
        [_calibration(curves["calibration"], metrics), _scores(curves["scores"])],
    )


def auc_card(metrics: Mapping[str, Any], main: bool = False) -> Card:
    """The AUC with its interval."""
    hint = f"{metrics['test_auc_low']:.4f} to {metrics['test_auc_high']:.4f}"
    return Card("ROC AUC", metrics["test_auc"], hint, main)


def loss_cards(metrics: Mapping[str, Any]) -> list[Card]:
    """Log loss and the area under the precision-recall curve."""
    return [
        Card("Log loss", metrics["test_logloss"], "nats a sample; 0.693 is a coin"),
        Card("PR AUC", metrics["test_pr_auc"], f"guessing gives {metrics['test_positive_rate']:.3f}"),
    ]


def calibration_cards(metrics: Mapping[str, Any]) -> list[Card]:
    """Error and ratio of the probabilities."""
    return [
        Card("Calibration error", metrics["test_calibration_error"], "mean gap of predicted and observed"),
        Card("Observed / predicted", metrics["test_calibration_ratio"], "1 is right on average"),
    ]


def sample_counts(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Lines of the table about the data."""
    confusion = metrics["confusion"]
    (tn, fp), (fn, tp) = confusion["matrix"]
    return {
        "test rows": f"{metrics['test_rows']:,}",
        "test rows clicked": f"{metrics['test_positive_rate']:.2%}",
        f"called a click at {confusion['threshold']:g}": f"{tp:,} rightly, {fp:,} wrongly",
        "called no click": f"{tn:,} rightly, {fn:,} wrongly",
    }


def roc_figure(curve: Mapping[str, Any], metrics: Mapping[str, Any]) -> Figure:
    """The ROC curve."""
    lines = [
        Line("guessing", (0, 1), (0, 1), "rule"),
        Line("model", curve["false_positive_rate"], curve["true_positive_rate"], area=True),
    ]
    x, y = Axis("false positive rate", 0, 1, _UNIT), Axis("true positive rate", 0, 1, _UNIT)
    fpr, tpr = curve["false_positive_rate"], curve["true_positive_rate"]
    caught = max((t for f, t in zip(fpr, tpr, strict=True) if f <= 0.1), default=0.0)
    note = f"At a false alarm in 10 of 100 others, the model finds {100 * caught:.0f} of 100 clicks."
    return Figure(f"ROC curve, area {metrics['test_auc']:.3f}", line_chart(lines, x, y), note)


def precision_recall_figure(curve: Mapping[str, Any], metrics: Mapping[str, Any]) -> Figure:
    """The precision-recall curve."""
    rate = metrics["test_positive_rate"]
    lines = [
        Line("guessing", (0, 1), (rate, rate), "rule"),
        Line("model", curve["recall"], curve["precision"], area=True),
    ]
    x, y = Axis("recall", 0, 1, _UNIT), Axis("precision", 0, 1, _UNIT)
    note = f"The share of clicks among what is called a click, against the share of all clicks found; {rate:.1%} click."
    return Figure(f"Precision and recall, area {metrics['test_pr_auc']:.3f}", line_chart(lines, x, y), note)


def _calibration(curve: Mapping[str, Any], metrics: Mapping[str, Any]) -> Figure:
    predicted, observed = curve["predicted"], curve["observed"]
    top = min(1.0, max(*predicted, *observed) * 1.05)
    lines = [
        Line("perfect", (0, top), (0, top), "rule"),
        Line("model", predicted, observed, dots=True),
    ]
    ratio = metrics["test_calibration_ratio"]
    balance = "as many clicks as predicted"
    if ratio is not None and abs(ratio - 1) >= 0.005:
        balance = f"{abs(ratio - 1):.1%} {'more' if ratio > 1 else 'fewer'} clicks than predicted"
    note = f"Each dot is a bin of equally many samples. Overall there were {balance}."
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
