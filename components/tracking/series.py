"""Series of metrics of a training in its MLflow run, in which no step stands twice."""

from __future__ import annotations

import time
from collections.abc import Iterable

from components.tracking.run import TrackedRun
from components.training_log import Point

# The tag with the moment at which the training of the run began, in milliseconds since 1970.
BEGAN = "kfrec.training_began"


def began_now() -> dict[str, str]:
    """The tag of a training that begins: what the run has shown before is another training's."""
    return {BEGAN: str(int(time.time() * 1000))}


class Series:
    """Logs points that a training does not have yet: an earlier attempt of the step may have logged some.

    Args:
        run: an open run.
    """

    def __init__(self, run: TrackedRun) -> None:
        self._run = run
        self._steps: dict[str, set[int]] = {}

    def log(self, points: Iterable[Point]) -> None:
        """Logs the points whose step is new; of several of one step the last one.

        Raises:
            MlflowException: the store refuses, or does not answer.
        """
        wanted = {(name, step): value for step, metrics in points for name, value in metrics.items()}
        new = {key: value for key, value in wanted.items() if key[1] not in self._known(key[0])}
        by_step: dict[int, dict[str, float]] = {}
        for (name, step), value in new.items():
            by_step.setdefault(step, {})[name] = value
        self._run.log_series(list(by_step.items()))
        for name, step in new:
            self._steps[name].add(step)

    def _known(self, name: str) -> set[int]:
        if name not in self._steps:
            history = self._run.client.get_metric_history(self._run.id, name)
            began = int(self._run.tags.get(BEGAN, 0))
            self._steps[name] = {point.step for point in history if point.timestamp >= began}
        return self._steps[name]
