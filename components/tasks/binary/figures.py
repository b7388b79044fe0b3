"""Charts and numbers of a binary outcome, for a task's report and the decision page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from components.contract import PROBABILITY
from components.metrics import CONFIDENCE, FEWEST, calibration, rarer_units, roc_bands
from components.report import Axis, Card, Figure, Line, Section, line_chart, spanning
from components.tasks.binary.columns import BEST_COLUMN
from components.tasks.controls import BASELINE
from components.tasks.report import Control, simple_rule
from components.tasks.scores import Scores

# Bins of the calibration of two models.
_BINS = 10
_UNIT = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def probabilities_section(curves: Mapping[str, Any], metrics: Mapping[str, Any]) -> Section:
    """Calibration, and the distribution of scores per class."""
    return Section(
        "Probabilities",
        "Whether the scores can be read as probabilities, as bidding and blending do.",
        [_calibration(curves["calibration"], metrics), _scores(curves["scores"])],
    )


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
        "test rows clicked": f"{metrics['test_positives']:,} ({metrics['test_positive_rate']:.2%})",
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
    ratio = metrics["test_calibration_ratio"]
    balance = "as many clicks as predicted"
    if ratio is not None and abs(ratio - 1) >= 0.005:
        balance = f"{abs(ratio - 1):.1%} {'more' if ratio > 1 else 'fewer'} clicks than predicted"
    note = f"Each dot is a bin of equally many samples. Overall there were {balance}."
    chart = _calibration_chart([Line("model", curve["predicted"], curve["observed"], dots=True)])
    return Figure(f"Calibration, error {curve['error']:.3f}", chart, note)


def _calibration_chart(models: Sequence[Line]) -> str:
    top = min(1.0, max(end for line in models for end in (*line.x, *line.y)) * 1.05)
    perfect = Line("perfect", (0, top), (0, top), "rule")
    return line_chart([perfect, *models], Axis("predicted", 0, top), Axis("observed", 0, top))


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


# Of data without histories.
COLUMN_CONTROLS = {
    BASELINE: Control(
        "built-in baseline",
        "A logistic regression on the click rates of the values of all columns.",
        "The model is above it: it has learned more than the columns tell one by one.",
        "The difference to the model may be chance.",
        "The model is below it: the columns one by one tell more.",
    ),
    BEST_COLUMN: simple_rule(
        "best column alone",
        "The click rates of the values of the column that ranks best, {about}.",
        "This one column does",
    ),
}


def compared(ours: Scores, theirs: Scores, clusters: np.ndarray | None) -> list[Section]:
    """ROC curves with confidence bands, their difference, and calibration; none without enough of the rarer class.

    Args:
        theirs: the champion's scores of the same samples.
        clusters: cluster of each sample, such as its user; None for independent samples.
    """
    labels, probabilities, rival = ours.labels, ours.outputs[PROBABILITY], theirs.outputs[PROBABILITY]
    if rarer_units(labels, clusters) < FEWEST:
        return []
    bands = roc_bands(labels, probabilities, rival, clusters=clusters)
    rates, level = bands.false_positive_rate.tolist(), f"{100 * CONFIDENCE:g} % bootstrap bands"
    lines = [
        Line("guessing", (0, 1), (0, 1), "rule"),
        *(
            Line(name, rates, band.estimate.tolist(), style, band=(band.low.tolist(), band.high.tolist()))
            for name, band, style in (("champion", bands.rival, "two"), ("this model", bands.model, "one"))
        ),
    ]
    rate = Axis("false positive rate", 0, 1, _UNIT)
    roc = line_chart(lines, rate, Axis("true positive rate", 0, 1, _UNIT))
    gain = bands.difference
    ends = gain.low.tolist(), gain.high.tolist()
    gained = [
        Line("", (0, 1), (0, 0), "rule"),
        Line("this model minus champion", rates, gain.estimate.tolist(), band=ends),
    ]
    axis = spanning("gain in true positive rate", [*ends[0], *ends[1], 0.0])
    note = "Where the band lies above zero, this model finds more clicks at the same rate of false alarms."
    return [
        Section(
            "Champion and challenger",
            f"Both models on the same test samples, with {level}.",
            [
                Figure("ROC curves", roc, "Bands are of each curve by itself."),
                Figure("What is gained", line_chart(gained, rate, axis), f"{note} Both are drawn together."),
                _calibrations(labels, probabilities, rival),
            ],
        )
    ]


def _calibrations(labels: np.ndarray, probabilities: np.ndarray, rival: np.ndarray) -> Figure:
    calibrations = {
        "champion": ("two", calibration(labels, rival, _BINS)),
        "this model": ("one", calibration(labels, probabilities, _BINS)),
    }
    chart = _calibration_chart(
        [Line(name, each.predicted, each.observed, style, dots=True) for name, (style, each) in calibrations.items()]
    )
    errors = ", ".join(f"{name} {each.error:.4f}" for name, (_, each) in calibrations.items())
    return Figure("Calibration", chart, f"Mean gap of predicted and observed: {errors}.")
