"""The MLflow run of a training: logged while it trains, by a thread that never holds it up.

A training takes hours, so a server that is away must not end it. What MLflow has missed is in the model's own training
log: the step logs it at the end or, if the server is still away, the evaluation of the same pipeline run does
(``components.tracking.trained``).
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from components.errors import Unreachable
from components.tracking.failures import is_of_the_store, unusable
from components.tracking.run import TrackedRun, open_run, status_after
from components.training_log import Point

# The longest time between a measurement and its request to MLflow.
SECONDS = 10.0
# The tag with the moment at which the training of the run began, in milliseconds since 1970.
BEGAN = "kfrec.training_began"


def began_now() -> dict[str, str]:
    """The tag of a training that begins: what the run has shown before is another training's."""
    return {BEGAN: str(int(time.time() * 1000))}


class Series:
    """Logs points that a training does not have yet: an earlier attempt of the step may have logged some."""

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


class TrainingRun:
    """A run whose server may be away.

    Args:
        start: logs what is known before the training; called once, as soon as the server answers.
    """

    def __init__(self, experiment: str, run_id: str, title: str, start: Callable[[TrackedRun], None]) -> None:
        self._which, self._start = (experiment, run_id, title), start
        self._run: TrackedRun | None = None
        self._has_started = False
        self._points: queue.SimpleQueue[Point] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._is_warned = False

    def attempt(self, job: Callable[[TrackedRun], None]) -> None:
        """Does a job that logs to MLflow; a server that is away is reported once and ends nothing.

        Raises:
            KfrecError: the server refuses this account, or is not an MLflow server.
        """
        from mlflow.exceptions import MlflowException

        try:
            self._run = self._run or open_run(*self._which)
            if not self._has_started:
                self._start(self._run)
                self._has_started = True
            job(self._run)
        except Unreachable as error:
            self._warn(error)
        except MlflowException as error:
            if self._run is None or not is_of_the_store(error):
                raise
            self._warn(unusable(self._run.client.tracking_uri, error))

    @contextmanager
    def measured(self) -> Iterator[Callable[[int, Mapping[str, float]], None]]:
        """While the block runs, logs what the yielded function is given, and MLflow's ``system/...`` metrics."""
        thread = threading.Thread(target=self._deliver, name="mlflow", daemon=True)
        thread.start()
        patience: float | None = SECONDS  # of a training that fails or is asked to stop: a server may not answer
        try:
            with self._system_metrics():
                yield lambda step, metrics: self._points.put((step, dict(metrics)))
            patience = None
        finally:
            self._ended.set()
            thread.join(patience)

    def end(self, status: str) -> None:
        """Ends the run, if the server answers."""
        if self._run is not None:
            self.attempt(lambda run: run.client.set_terminated(run.id, status))

    def _deliver(self) -> None:
        series: Series | None = None

        def log(run: TrackedRun) -> None:
            nonlocal series
            series = series or Series(run)
            series.log(points)

        ended = False
        while not ended:
            ended = self._ended.wait(SECONDS)
            points = list(self._taken())
            if points:
                try:
                    self.attempt(log)
                except Exception:  # raised again by what the step logs at its end
                    return

    def _taken(self) -> Iterator[Point]:
        with suppress(queue.Empty):
            while True:
                yield self._points.get_nowait()

    @contextmanager
    def _system_metrics(self) -> Iterator[None]:
        """Nothing is logged if MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is false."""
        from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING as WANTED

        monitor = None
        if self._run and (WANTED.get() or not WANTED.is_set()):
            from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

            uri = self._run.client.tracking_uri
            monitor = SystemMetricsMonitor(self._run.id, resume_logging=True, tracking_uri=uri)
            monitor.start()
        try:
            yield
        finally:
            if monitor:
                monitor.finish()

    def _warn(self, error: Exception) -> None:
        if not self._is_warned:
            print(f"{error}; the training continues, and MLflow gets the rest at its end", file=sys.stderr, flush=True)
        self._is_warned = True


@contextmanager
def training_run(
    experiment: str, run_id: str, title: str, start: Callable[[TrackedRun], None] = lambda run: None
) -> Iterator[TrainingRun]:
    """Like ``components.tracking.run.tracked_run``, but survives a server that is away; see ``TrainingRun``.

    Raises:
        KfrecError: the server refuses this account, or is not an MLflow server.
    """
    tracked = TrainingRun(experiment, run_id, title, start)
    tracked.attempt(lambda run: None)
    try:
        yield tracked
    except BaseException as error:
        tracked.end(status_after(error))
        raise
    tracked.end(status_after(None))
