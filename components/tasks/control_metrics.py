"""Measures what a model's score rests on, by a task's primary metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from components.contract import Metric
from components.metrics import CONFIDENCE, Interval
from components.tasks.controls import BASELINE
from components.tasks.scores import Controlled, Scores

# Of the metric of one of several scores of the same samples, or of its difference to that of another one.
Intervals = Callable[[int, int | None], Interval]


def measure_controls(
    controlled: Controlled, metric: Metric, intervals: Callable[[Scores, Sequence[np.ndarray]], Intervals]
) -> dict[str, Any]:
    """The metric of each control, and how far the model is above it on the same samples.

    Args:
        controlled: the scores.
        metric: of which higher is better.
        intervals: takes samples and the controls' scores of them, ``[n, ...]`` each; place 0 is the model.

    Returns:
        ``test_controls_rows``, ``test_controls_training_rows`` and ``test_controls_<metric>``, the model's own value on
        these samples; for each control ``test_<name>_<metric>`` and ``test_<metric>_above_<name>``, with ``_low`` and
        ``_high`` each, None for a control without scores; and what the baselines have chosen, by their names.
    """
    model = controlled.model
    measured = {name: values for name, values in controlled.others.items() if values is not None}
    interval = intervals(model, list(measured.values()))
    metrics: dict[str, Any] = {
        "test_controls_rows": model.rows,
        "test_controls_training_rows": controlled.training_samples,
        **controlled.about,
    }
    of = metric.name
    wanted: dict[str, tuple[int, int | None] | None] = {f"test_controls_{of}": (0, None)}
    for name in controlled.others:
        place = list(measured).index(name) + 1 if name in measured else None
        wanted[f"test_{name}_{of}"] = None if place is None else (place, None)
        wanted[f"test_{of}_above_{name}"] = None if place is None else (0, place)
    for key, places in wanted.items():
        found = None if places is None else interval(*places)
        for part, value in (("", "estimate"), ("_low", "low"), ("_high", "high")):
            metrics[f"{key}{part}"] = None if found is None else getattr(found, value)
    return metrics


def below_baseline(metrics: Mapping[str, Any], metric: Metric) -> list[str]:
    """One sentence if the model is not above the baseline by more than chance; none if it is, or without baseline."""
    above = f"test_{metric.name}_above_{BASELINE}"
    low = metrics.get(f"{above}_low")
    if low is None or low > 0:
        return []
    return [
        f"the model does not beat the built-in baseline: test {metric.label} "
        f"{metrics[f'test_controls_{metric.name}']:.4f} against {metrics[f'test_{BASELINE}_{metric.name}']:.4f}, a "
        f"difference of {metrics[above]:+.4f} ({100 * CONFIDENCE:g} % interval {low:+.4f} to "
        f"{metrics[f'{above}_high']:+.4f})"
    ]
