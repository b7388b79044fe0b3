"""Speed of steps, measured in windows, so that steps stay asynchronous."""

from __future__ import annotations

import time

import numpy as np


def latencies(seconds: np.ndarray) -> dict[str, float]:
    """Mean and percentiles of step times, in milliseconds, as ``latency_mean`` to ``latency_p99``."""
    p90, p95, p99 = np.percentile(seconds, [90, 95, 99]) * 1000
    return {
        "latency_mean": float(seconds.mean()) * 1000,
        "latency_p90": float(p90),
        "latency_p95": float(p95),
        "latency_p99": float(p99),
    }


class Meter:
    """Times windows of steps; excludes the first window, because the first step compiles the graph.

    Attributes:
        samples_per_second: of the last window.
        step_seconds: mean of the last window.
    """

    def __init__(self) -> None:
        self.samples_per_second = 0.0
        self.step_seconds = 0.0
        self._warm = False
        self.next_epoch()
        self._started = time.monotonic()

    @property
    def is_cold(self) -> bool:
        """Whether no window has ended yet."""
        return not self._warm

    @property
    def mean_samples_per_second(self) -> float:
        """Of this epoch, or of the last window if the epoch has only the first step of the process."""
        return self._measured_samples / self._measured_seconds if self._measured_seconds else self.samples_per_second

    @property
    def latencies(self) -> dict[str, float]:
        """Of the steps of this epoch, see ``latencies``; each step counts with its window's mean."""
        return latencies(np.array(self._measured_steps or [self.step_seconds]))

    def start(self) -> None:
        """Begins a window; excludes the time since the last one ended."""
        self._started = time.monotonic()

    def stop(self, samples: int, steps: int) -> None:
        """Ends a window of steps whose results have been read, and begins the next one."""
        now = time.monotonic()
        elapsed = now - self._started
        self._started = now
        self.samples_per_second, self.step_seconds = samples / elapsed, elapsed / steps
        if self._warm:
            self._measured_samples += samples
            self._measured_seconds += elapsed
            self._measured_steps += [self.step_seconds] * steps
        self._warm = True

    def next_epoch(self) -> None:
        self._measured_samples, self._measured_seconds = 0, 0.0
        self._measured_steps: list[float] = []
