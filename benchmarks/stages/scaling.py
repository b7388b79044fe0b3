"""One and two ranks at a fixed batch a rank, one thread each; and how long a step waits for its input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.measuring import Figure, Plan, Report, alternated
from benchmarks.samples import write_samples
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run
from components.train.launch import LocalLauncher

ROWS, BATCH_A_RANK = 65_536, 1024
STEPS, WARMUP = 15, 3


def measure(folder: Path, plan: Plan, report: Report) -> None:
    parquet = write_samples(folder / "parquet", ROWS, 2000)
    run(TfrecordParameters(), parquet=parquet, tfrecord=folder / "tfrecord")
    jobs = {
        "one": lambda: _benchmark(folder, 1)["throughput"],
        "two": lambda: _benchmark(folder, 2)["throughput"],
    }
    values = alternated(plan.slow_runs, **jobs)
    name = f"two ranks under Gloo, batch {BATCH_A_RANK} a rank, one thread each"
    report.add(Figure("scaling", name, "samples/s", values["two"], values["one"], target_ratio=1.7))
    waits = [_waiting(_benchmark(folder, 1)) for _ in range(plan.slow_runs)]
    report.add(Figure("input", "share of a training step spent waiting for the batch", "", waits, target=0.05,
                      lower_is_better=True))  # fmt: skip


def _benchmark(folder: Path, ranks: int) -> dict[str, Any]:
    """What the training worker's own benchmark says, with ``ranks`` processes."""
    out = folder / "results"
    options = {
        "global_batch_size": BATCH_A_RANK * ranks,
        "intra_op_parallelism": 1,
        "inter_op_parallelism": 1,
        "affinity": "disabled",
        "benchmark": "true",
        "benchmark_steps": STEPS,
        "benchmark_warmup_steps": WARMUP,
        "seed": 1,
    }
    arguments = [f"--dataset_dir={folder / 'tfrecord'}", f"--results_dir={out}"]
    arguments += [f"--{name}={value}" for name, value in options.items()]
    launcher = LocalLauncher("gloo")
    environment = os.environ | launcher.environment()
    done = subprocess.run(launcher.command(ranks, arguments), env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr[-2000:])
        raise RuntimeError(f"{ranks} ranks ended with status {done.returncode}")
    lines = [json.loads(line.removeprefix("DLLL ")) for line in (out / "log.json").read_text().splitlines()]
    return next(line["data"] for line in reversed(lines) if "throughput" in line.get("data", {}))


def _waiting(measured: dict[str, Any]) -> float:
    cycle_ms = 1000 * BATCH_A_RANK / measured["throughput"]
    return max(0.0, 1 - measured["latency_mean"] / cycle_ms)
