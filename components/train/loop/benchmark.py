"""Throughput and latency of single steps, the way the public benchmark reports them."""

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

from components.train.loop.log import TrainingLog
from components.train.loop.meter import latencies
from components.train.loop.session import Session
from components.train.loop.transfer import Transfer

Steps = Callable[[Iterator[Any]], Iterator[tf.Tensor]]
"""Takes a step with each batch and yields its results."""


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark measured.

    Attributes:
        throughput: samples a second over all ranks, from asking for a batch to having its result, over all
            measured steps.
        throughput_std: its standard deviation from step to step.
        time: seconds of all steps, those before the measured ones included.
        step_mean: milliseconds from having a batch to having its result, of the slowest rank.
        latency_mean: milliseconds from asking for a batch to having its result, of the slowest rank.
        latency_p90: its 90th percentile.
        latency_p95: its 95th percentile.
        latency_p99: its 99th percentile.
        steps: measured steps.
        samples: of these steps, over all ranks.
        sent_bytes: of a step, that a rank sends to the others, the mean of the ranks
            (:meth:`components.train.loop.ranks.Ranks.sent_bytes`).
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

    def told(self, mode: str) -> str:
        return (
            f"{mode} benchmark of {self.steps} steps: "
            f"{self.throughput:,.0f} samples/s (std {self.throughput_std:,.0f}), "
            f"latency {self.latency_mean:.2f} ms (p90 {self.latency_p90:.2f}, p95 {self.latency_p95:.2f}, "
            f"p99 {self.latency_p99:.2f}), of it {self.step_mean:.2f} ms with the batch at hand"
            + (f"; a rank sent {self.sent_bytes / 1e6:,.3f} MB a step" if self.sent_bytes else "")
        )


def benchmark_training(session: Session, steps: Steps, seed: int, log: TrainingLog) -> Benchmark:
    """Measures training steps, over as many epochs as it takes; afterwards ``log`` gets the samples/s of each."""
    epochs = (session.training_batches(seed, epoch) for epoch in itertools.count())
    return _measure(session, steps, itertools.chain.from_iterable(epochs), session.data.train_transfer, log)


def benchmark_inference(session: Session, log: TrainingLog) -> Benchmark:
    """Measures scoring full batches of the test split, over and over; ``log`` as in training."""
    rows, size = session.data.test.rows, session.parameters.global_batch_size
    if rows < size and session.is_first:
        print(f"the {rows} samples of the test split are repeated to fill batches of {size}", flush=True)
    run = partial(map, session.scorer.run)
    return _measure(session, run, session.full_test_batches(), session.data.test_transfer, log)


def summarize(rows: np.ndarray, cycle_seconds: np.ndarray, step_seconds: np.ndarray, warmup: int = 0) -> Benchmark:
    """Puts the ranks' measurements together.

    Args:
        rows: [ranks, steps] samples of each step.
        cycle_seconds: [ranks, steps] from asking for a batch to having its result.
        step_seconds: [ranks, steps] from having the batch to having its result.
        warmup: steps at the beginning that only ``time`` counts.
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
    """Takes a step with each batch; what :func:`summarize` wants to know of it: its samples, cycle and step seconds.

    Args:
        steps: takes a step with each batch, in order, and may ask for the next batch before.
        batches: as they are handed over.
        rows: samples of a batch.
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
        result.numpy()  # waits for the device
        cycle = time.perf_counter() - begun
        yield sizes.popleft(), cycle, cycle - waited


def _measure(session: Session, steps: Steps, batches: Iterator[Any], handed: Transfer, log: TrainingLog) -> Benchmark:
    warmup, wanted = session.parameters.benchmark_warmup_steps, session.parameters.benchmark_steps
    measured: list[tuple[int, float, float]] = []
    sent = session.ranks.sent_bytes()
    with session.progress("benchmark", warmup + wanted, "steps") as advance:
        for taken in itertools.islice(timed_steps(steps, batches, handed.rows), warmup + wanted):
            measured.append(taken)
            advance(1)
    sent = session.ranks.sent_bytes() - sent
    gathered = np.array(session.ranks.gather(measured))
    rows, cycles, seconds = np.moveaxis(gathered, 2, 0)
    for number, (samples, cycle) in enumerate(zip(rows.sum(axis=0), cycles.max(axis=0), strict=True), 1):
        log.write([1, number], {"samples/s": samples / cycle})
    sent_bytes = sum(session.ranks.gather(sent)) / session.ranks.size / len(measured)
    return replace(summarize(rows, cycles, seconds, warmup), sent_bytes=sent_bytes)
