"""Speed of steps: of a training in windows, so that steps stay asynchronous, and of single steps in a benchmark."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from components.train.loop.session import Session
from components.train.loop.transfer import Transfer
from components.training_log import TrainingLog

Steps = Callable[[Iterator[Any]], Iterator[tf.Tensor]]
"""Runs a step on each batch and yields its results."""


@dataclass(frozen=True)
class Benchmark:
    """The result of a benchmark.

    Attributes:
        throughput: samples per second over all ranks and all measured steps, including the wait for batches.
        time: seconds of all steps, including warm-up.
        step_mean: milliseconds from receiving a batch to its result, on the slowest rank.
        latency_mean: milliseconds from requesting a batch to its result, on the slowest rank.
        latency_p90: its 90th percentile.
        latency_p95: its 95th percentile.
        latency_p99: its 99th percentile.
        sent_bytes: bytes that a rank sends per step, the mean over ranks
            (``components.train.loop.ranks.Ranks.sent_bytes``).
    """

    throughput: float
    throughput_std: float
    time: float
    step_mean: float
    latency_mean: float
    latency_p90: float
    latency_p95: float
    latency_p99: float
    steps: int
    samples: int
    sent_bytes: float = 0.0

    def metrics(self) -> dict[str, float]:
        return asdict(self)

    def summary(self, mode: str) -> str:
        return (
            f"{mode} benchmark of {self.steps} steps: "
            f"{self.throughput:,.0f} samples/s (std {self.throughput_std:,.0f}), "
            f"latency {self.latency_mean:.2f} ms (p90 {self.latency_p90:.2f}, p95 {self.latency_p95:.2f}, "
            f"p99 {self.latency_p99:.2f}), of it {self.step_mean:.2f} ms with the batch at hand"
            + (f"; a rank sent {self.sent_bytes / 1e6:,.3f} MB a step" if self.sent_bytes else "")
        )


def benchmark_training(session: Session, steps: Steps, seed: int, log: TrainingLog) -> Benchmark:
    """Measures training steps, over as many epochs as needed; logs the samples/s of each step at the end."""
    epochs = (session.training_batches(seed, epoch) for epoch in itertools.count())
    return _measure(session, steps, itertools.chain.from_iterable(epochs), session.data.train_transfer, log)


def benchmark_inference(session: Session, log: TrainingLog) -> Benchmark:
    """Measures scoring full batches of the repeated test split; logs as ``benchmark_training``."""
    assert session.data.scored is not None
    rows, size = session.data.scored.rows, session.parameters.global_batch_size
    if rows < size and session.is_first:
        print(f"the {rows} samples of the test split are repeated to fill batches of {size}", flush=True)
    run = partial(map, session.scorer.run)
    return _measure(session, run, session.full_scored_batches(), session.data.scored_transfer, log)


def summarize(rows: np.ndarray, cycle_seconds: np.ndarray, step_seconds: np.ndarray, warmup: int = 0) -> Benchmark:
    """Reduces the ranks' measurements to a ``Benchmark``.

    Args:
        rows: [ranks, steps] samples of each step.
        cycle_seconds: [ranks, steps] from requesting a batch to its result.
        step_seconds: [ranks, steps] from receiving a batch to its result.
        warmup: first steps, which count only in ``time``.
    """
    cycles, samples = cycle_seconds.max(axis=0), rows.sum(axis=0)
    measured = slice(warmup, None)
    return Benchmark(
        throughput=float(samples[measured].sum() / cycles[measured].sum()),
        throughput_std=float((samples / cycles)[measured].std()),
        time=float(cycles.sum()),
        step_mean=float(step_seconds.max(axis=0)[measured].mean()) * 1000,
        **latencies(cycles[measured]),
        steps=rows.shape[1] - warmup,
        samples=int(samples[measured].sum()),
    )


def timed_steps(steps: Steps, batches: Iterator[Any], rows: Callable[[Any], int]) -> Iterator[tuple[int, float, float]]:
    """Runs a step on each batch; yields its samples, cycle seconds and step seconds, as for ``summarize``.

    Args:
        steps: runs a step on each batch, in order; may request the next batch before it yields.
    """
    waited, sizes = 0.0, deque[int]()

    def watched() -> Iterator[Any]:
        nonlocal waited
        while True:
            asked = time.perf_counter()
            batch = next(batches, None)
            waited += time.perf_counter() - asked
            if batch is None:
                return
            sizes.append(rows(batch))
            yield batch

    results = steps(watched())
    while True:
        begun, waited = time.perf_counter(), 0.0
        result = next(results, None)
        if result is None:
            return
        for each in tf.nest.flatten(result):
            each.numpy()  # waits for the device
        cycle = time.perf_counter() - begun
        yield sizes.popleft(), cycle, cycle - waited


def _measure(session: Session, steps: Steps, batches: Iterator[Any], transfer: Transfer, log: TrainingLog) -> Benchmark:
    warmup, wanted = session.parameters.benchmark_warmup_steps, session.parameters.benchmark_steps
    measured: list[tuple[int, float, float]] = []
    sent = session.ranks.sent_bytes()
    with session.progress("benchmark", warmup + wanted, "steps") as advance:
        for taken in itertools.islice(timed_steps(steps, batches, transfer.rows), warmup + wanted):
            measured.append(taken)
            advance(1)
    sent = session.ranks.sent_bytes() - sent
    gathered = np.array(session.ranks.gather(measured))
    rows, cycles, seconds = np.moveaxis(gathered, 2, 0)
    for number, (samples, cycle) in enumerate(zip(rows.sum(axis=0), cycles.max(axis=0), strict=True), 1):
        log.write([1, number], {"samples/s": samples / cycle})
    sent_bytes = sum(session.ranks.gather(sent)) / session.ranks.size / len(measured)
    return replace(summarize(rows, cycles, seconds, warmup), sent_bytes=sent_bytes)


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
    """Times windows of steps; excludes the first window, because the first step compiles the graph."""

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
