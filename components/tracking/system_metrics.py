"""MLflow's system metrics of a running step: CPU, memory, disk, network and GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.tracking.kept import Tracked

_SAMPLE_SECONDS = 10.0
_FIRST_SECONDS, _LONGEST_SECONDS = 2.0, 60.0


@contextmanager
def system_metrics(run: Tracked) -> Iterator[None]:
    """Logs ``system/...`` metrics of this machine until the block ends.

    A point is the mean of samples at most 10 s apart. The interval between points grows from 2 s to 60 s, for trials of
    seconds and trainings of days alike; their step is the age of the run in seconds.
    Nothing is logged without psutil, or if MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is false.
    """
    monitors = _monitors()
    if not monitors:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_sample, args=(run, monitors, ended), name="system metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _monitors() -> list[Any]:
    from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING as WANTED

    if WANTED.is_set() and not WANTED.get():
        return []
    try:
        from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
        from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
        from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
        from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor
    except ImportError:
        return []
    monitors: list[Any] = [CPUMonitor(), DiskMonitor(), NetworkMonitor()]
    with suppress(Exception):  # no GPU, no pynvml, or an incompatible driver
        monitors.append(GPUMonitor())
    return monitors


def _sample(run: Tracked, monitors: list[Any], ended: threading.Event) -> None:
    from mlflow.exceptions import MlflowException

    for monitor in monitors:
        monitor.collect_metrics()  # CPU use is measured since the previous call
        monitor.clear_metrics()
    pause = _FIRST_SECONDS
    while not ended.is_set():
        until = time.monotonic() + pause
        while (left := until - time.monotonic()) > 0 and not ended.is_set():
            ended.wait(min(left, _SAMPLE_SECONDS))
            for monitor in monitors:
                monitor.collect_metrics()
        means = {f"system/{name}": value for m in monitors for name, value in m.aggregate_metrics().items()}
        for monitor in monitors:
            monitor.clear_metrics()
        with suppress(MlflowException):  # skip the point; the step's own logging reports the error
            run.log_metrics(means, step=run.age())
        pause = min(2 * pause, _LONGEST_SECONDS)
