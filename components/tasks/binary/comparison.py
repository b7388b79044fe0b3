"""Compares two models' curves of a binary outcome, for the decision page."""

from __future__ import annotations

import numpy as np

from components.metrics import CONFIDENCE, calibration, roc_bands
from components.report import Axis, Figure, Line, Section, line_chart, spanning

_UNIT = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_BINS = 10


def compared(
    labels: np.ndarray, probabilities: np.ndarray, rival: np.ndarray, clusters: np.ndarray | None
) -> list[Section]:
    """ROC curves with confidence bands, their difference, and calibration.

    Args:
        labels: 0 or 1, both present.
        probabilities: of the trained model.
        rival: of the champion, for the same samples.
        clusters: cluster of each sample, such as its user; None for independent samples.
    """
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
    top = min(1.0, max(max(*each.predicted, *each.observed) for _, each in calibrations.values()) * 1.05)
    lines = [
        Line("perfect", (0, top), (0, top), "rule"),
        *(Line(name, each.predicted, each.observed, style, dots=True) for name, (style, each) in calibrations.items()),
    ]
    chart = line_chart(lines, Axis("predicted", 0, top), Axis("observed", 0, top))
    errors = ", ".join(f"{name} {each.error:.4f}" for name, (_, each) in calibrations.items())
    return Figure("Calibration", chart, f"Mean gap of predicted and observed: {errors}.")
