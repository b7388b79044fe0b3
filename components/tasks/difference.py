"""The difference of two models on the same samples: one interval and one wording, wherever two models are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from components.contract import Metric
from components.errors import KfrecError
from components.metrics import CONFIDENCE, Interval, fewest_units
from components.tasks.definition import TaskDefinition
from components.tasks.scores import Scores

RESAMPLES = 1000
# The same draws for every comparison: a pair of models has one interval.
_SEED = 0
# Decimals of a score; smaller differences get significant digits instead.
_DECIMALS = 4


@dataclass(frozen=True)
class Difference:
    """A model against a rival, by a task's primary metric.

    Attributes:
        rival_score: the rival's, on the same samples.
    """

    metric: Metric
    score: float
    rival_score: float
    interval: Interval
    confidence: float

    @property
    def gain(self) -> Interval:
        """The interval in the direction of the metric: positive where the model is better."""
        if self.metric.higher_is_better:
            return self.interval
        return Interval(-self.interval.estimate, -self.interval.high, -self.interval.low, units=self.interval.units)

    @property
    def is_finite(self) -> bool:
        """Whether both scores, their difference and its interval, if there is one, are finite numbers."""
        interval = self.interval
        ends = () if self.has_too_few else (interval.low, interval.high)
        return all(map(math.isfinite, (self.score, self.rival_score, interval.estimate, *ends)))

    @property
    def has_too_few(self) -> bool:
        """Whether there is no interval, for want of independent units of the rarer class."""
        units = self.interval.units
        return units is not None and units < fewest_units(self.confidence)

    @property
    def doubt(self) -> str:
        """Why it may be chance, as a clause; empty if the interval excludes zero, on either side."""
        if self.has_too_few:
            return (
                f"{self.interval.units} units of the rarer class are fewer than the {fewest_units(self.confidence)} "
                f"that a {100 * self.confidence:g} % interval needs"
            )
        return "" if self.interval.low > 0 or self.interval.high < 0 else "the interval reaches zero"

    def __str__(self) -> str:
        """Such as "better by 0.0241 (95 % interval 0.0144 to 0.0340)"."""
        gain, level = self.gain, f"{100 * self.confidence:g} % interval"
        if not self.is_finite:
            return f"a difference of {gain.estimate:g} ({level} {gain.low:g} to {gain.high:g})"
        if self.has_too_few:
            return f"{_side(gain.estimate)} (no interval)"
        if min(gain.low, gain.estimate) > 0:
            return f"{_side(gain.estimate)} ({level} {_figure(gain.low)} to {_figure(gain.high)})"
        if max(gain.high, gain.estimate) < 0:
            return f"{_side(gain.estimate)} ({level} {_figure(-gain.high)} to {_figure(-gain.low)})"
        return f"{_side(gain.estimate)} ({level} from {_side(gain.low)} to {_side(gain.high)})"


def difference_of(
    task: TaskDefinition,
    ours: Scores,
    theirs: Scores,
    parameters: Any,
    *,
    samples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Difference:
    """Compares two models' scores of the same samples.

    Raises:
        KfrecError: the task returns something else than an interval.
    """
    interval = task.difference(ours, theirs, parameters, samples, confidence, _SEED)
    if not isinstance(interval, Interval):
        raise KfrecError(f"task {task.name}: difference returns a {type(interval).__name__}; return an Interval")
    return Difference(task.primary, task.value(ours, parameters), task.value(theirs, parameters), interval, confidence)


def _side(gain: float) -> str:
    if gain == 0:
        return "no difference"
    return f"{'better' if gain > 0 else 'worse'} by {_figure(abs(gain))}"


def _figure(value: float) -> str:
    is_shown = value == 0 or abs(value) >= 10 ** (1 - _DECIMALS)
    return f"{value:.{_DECIMALS}f}" if is_shown else f"{value:.2g}"
