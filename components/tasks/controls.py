"""Controls: what a task has scored beside the model, to find what its score depends on, and their metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from components.contract import Metric
from components.metrics import CONFIDENCE, FEWEST, Interval, mean_interval
from components.tasks.scores import Controlled, Scores

# The baselines that a model has to beat to be promoted, and their names in sentences.
BASELINE, RECENT_POPULARITY = "baseline", "recent_popularity"
_TO_BEAT = {BASELINE: "the built-in baseline", RECENT_POPULARITY: "the popularity of the last days of training"}
# In place of an interval that is None.
NO_INTERVAL = f"no interval: fewer than {FEWEST} units of the rarer class"

# Feature name to array, as in components.records: [n], or [n, length] for lists.
Samples = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Probe:
    """A change of the model's input; a score that stays the same does not depend on it.

    Attributes:
        name: in metrics, such as "empty_history".
        reads: features that ``change`` takes; those that it returns are among them.
        changes: features that ``change`` returns; a model that reads none of them is not scored again.
        change: takes samples of the test split, and returns the changed features.
    """

    name: str
    reads: tuple[str, ...]
    changes: tuple[str, ...]
    change: Callable[[Samples], Samples]


class Baselines(Protocol):
    """Scores without the model, fitted on a sample of the training split."""

    @property
    def features(self) -> tuple[str, ...]:
        """The features that ``fit`` and ``scores`` read."""

    def fit(self, first: Iterable[Samples], second: Iterable[Samples]) -> None:
        """Fits on two parts of the training split.

        What is counted in the labels of one part must be fitted on the other: a sample's own label is in its count.
        """

    def scores(self, samples: Samples) -> dict[str, np.ndarray]:
        """Scores without the model.

        Args:
            samples: of the test split, with the model's outputs by name, which a baseline may score, such as tokens
                that a model has replaced.

        Returns:
            Baseline name, as in metrics, to scores, as the output that they are compared with; empty if there was
            nothing to fit on.
        """

    @property
    def about(self) -> Mapping[str, str]:
        """What fitting has chosen, by baseline name, such as a column."""


@dataclass(frozen=True)
class Controls:
    """What to score beside the model.

    Attributes:
        probes: changes of the model's input.
        baselines: None if the data lack what they read.
        output: of the model's signature, which is compared with the baselines, ``[n, ...]``.
        samples: largest number of test samples to score, a random part of the split.
        together: feature whose equal values stay together in that part, such as the group of a ranking, which its
            number then only approximates; empty draws blocks of records.
        training_samples: largest number of training samples to fit the baselines on, from the split's beginning.
        column_samples: largest number of samples of that part.
    """

    probes: tuple[Probe, ...]
    baselines: Baselines | None
    output: str
    samples: int
    training_samples: int
    together: str = ""
    columns: tuple[Probe, ...] = ()
    column_samples: int = 0


# Of the metric of one of several scores of the same samples, or of its difference to that of another one.
Intervals = Callable[[int, int | None], Interval]


def mean_intervals(values: Sequence[np.ndarray], **options: Any) -> Intervals:
    """Intervals of means over the same units; ``options`` are those of ``mean_interval``."""
    return lambda which, minus: mean_interval(values[which] - (0 if minus is None else values[minus]), **options)


def measure_controls(
    controlled: Controlled, metric: Metric, intervals: Callable[[Scores, Sequence[np.ndarray]], Intervals]
) -> dict[str, Any]:
    """The metric of each control, and how far the model is above it on the same samples.

    Args:
        metric: of which higher is better.
        intervals: takes samples and the controls' scores of them, ``[n, ...]`` each; place 0 is the model.

    Returns:
        ``test_controls_rows``, ``test_controls_training_rows`` and ``test_controls_<metric>``, the model's own value on
        these samples; for each control ``test_<name>_<metric>`` and ``test_<metric>_above_<name>``, with ``_low`` and
        ``_high`` each, None for a control without scores or an interval; and what the baselines have chosen, by their
        names.
    """
    model = controlled.model
    measured = {name: values for name, values in controlled.others.items() if values is not None}
    interval = intervals(model, list(measured.values()))
    metrics: dict[str, Any] = {
        "test_controls_rows": model.rows,
        "test_controls_training_rows": controlled.training_samples,
        **controlled.about,
    }
    of, places = metric.name, {name: place for place, name in enumerate(measured, 1)}
    metrics |= interval(0, None).metrics(f"test_controls_{of}")
    for name in controlled.others:
        own, gain = f"test_{name}_{of}", f"test_{of}_above_{name}"
        if name in places:
            metrics |= interval(places[name], None).metrics(own) | interval(0, places[name]).metrics(gain)
        else:
            metrics |= dict.fromkeys(f"{key}{end}" for key in (own, gain) for end in ("", "_low", "_high"))
    return metrics


def below_baseline(metrics: Mapping[str, Any], metric: Metric) -> list[str]:
    """A sentence for each baseline that the model is not above by more than chance; none without baselines."""
    names = [name for name in _TO_BEAT if not beats_baseline(metrics, metric, name)]
    return [each for name in names for each in against_baseline(metrics, metric, name)]


def beats_baseline(metrics: Mapping[str, Any], metric: Metric, name: str = BASELINE) -> bool:
    """Whether the model is above a baseline by more than chance."""
    low = metrics.get(f"test_{metric.name}_above_{name}_low")
    return low is not None and low > 0


def against_baseline(metrics: Mapping[str, Any], metric: Metric, name: str = BASELINE) -> list[str]:
    """One sentence on whether the model is above a baseline by more than chance; none without the baseline."""
    above = f"test_{metric.name}_above_{name}"
    if metrics.get(above) is None:
        return []
    low = metrics[f"{above}_low"]
    ends = (
        f"{100 * CONFIDENCE:g} % interval {low:+.4f} to {metrics[f'{above}_high']:+.4f}"
        if low is not None
        else NO_INTERVAL
    )
    return [
        f"the model {'beats' if beats_baseline(metrics, metric, name) else 'does not beat'} {_TO_BEAT[name]}: test "
        f"{metric.label} {metrics[f'test_controls_{metric.name}']:.4f} against "
        f"{metrics[f'test_{name}_{metric.name}']:.4f}, a difference of {metrics[above]:+.4f} ({ends})"
    ]


def not_above_guessing(metrics: Mapping[str, Any], metric: Metric, guessed: float, low: float | None) -> list[str]:
    """One sentence if the model is not above guessing by more than chance; else none.

    Args:
        low: the lower end of what the model is above it; None without an interval.
    """
    if low is not None and low > 0:
        return []
    score = metrics[f"test_{metric.name}"]
    chance = ", by more than chance" if score > guessed else ""
    return [f"the test {metric.label} {score:.4f} is not above that of guessing, {guessed:.4f}{chance}"]
