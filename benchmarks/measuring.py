"""Timed runs and the figures derived from them."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured number.

    Attributes:
        stage: of the workflow.
        name: what was measured.
        unit: of the values.
        values: one per run.
        reference: the reference's values in the same session, one per run; empty without a reference.
        target: for the median; None without a target.
        target_ratio: for the ratio to the reference; None without a target.
        lower_is_better: for sizes and durations; the ratio is then reference over value.
        note: remark.
    """

    stage: str
    name: str
    unit: str
    values: Sequence[float]
    reference: Sequence[float] = ()
    target: float | None = None
    target_ratio: float | None = None
    lower_is_better: bool = False
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def ratio(self) -> float | None:
        """Improvement over the reference, as a ratio of medians."""
        if not self.reference:
            return None
        ratio = self.median / statistics.median(self.reference)
        return 1 / ratio if self.lower_is_better else ratio

    @property
    def met(self) -> bool | None:
        """Whether all targets are reached; None without a target."""
        checks = []
        if self.target is not None:
            checks.append(self.median <= self.target if self.lower_is_better else self.median >= self.target)
        if self.target_ratio is not None:
            assert self.ratio is not None, f"{self.name} has a target for its ratio and no reference"
            checks.append(self.ratio >= self.target_ratio)
        return all(checks) if checks else None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "median": self.median, "ratio": self.ratio, "met": self.met}


@dataclass(frozen=True)
class Plan:
    """Extent of a benchmark.

    Attributes:
        runs: per figure with a median.
        full: include larger sizes.
    """

    runs: int = 5
    full: bool = False

    @staticmethod
    def of(full: bool) -> Plan:
        return Plan(runs=7, full=True) if full else Plan()


def seconds(job: Callable[[], Any]) -> float:
    """Duration of one call."""
    gc.collect()
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def alternated(runs: int, **jobs: Callable[[], float]) -> dict[str, list[float]]:
    """Calls each job ``runs`` times, interleaved, so that other load on the machine affects all alike."""
    values: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            values[name].append(job())
    return values


def peak_megabytes() -> float:
    """The largest resident size of this process so far, in MB.

    getrusage cannot be used: its maximum survives exec, so it starts at the size of the parent process.
    """
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024 / 1e6


@dataclass
class Report:
    """Collects a stage's figures and prints them for the process that started it."""

    figures: list[Figure] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)
        print(json.dumps({"figure": figure.to_dict()}), flush=True)
