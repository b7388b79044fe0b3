"""One and two ranks at a fixed batch a rank, one thread each; what they send; how long a step waits for its input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.measuring import Figure, Plan, Report, alternated
from benchmarks.samples import write_samples
from benchmarks.stages.step import our_step, tensors
from components.models.loss import loss_of
from components.models.optimizers.rows import sum_by_row
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run
from components.train.launch import LocalLauncher

ROWS, BATCH_A_RANK = 131_072, 4096
STEPS, WARMUP = 6, 4  # memory grows for the first steps


def measure(folder: Path, plan: Plan, report: Report) -> None:
    parquet = write_samples(folder / "parquet", ROWS, 2000)
    run(TfrecordParameters(), parquet=parquet, tfrecord=folder / "tfrecord")
    waits: list[float] = []

    def one() -> float:
        measured = _benchmark(folder, 1)
        waits.append(_waiting(measured))
        return float(measured["throughput"])

    values = alternated(plan.slow_runs, one=one, two=lambda: _benchmark(folder, 2)["throughput"])
    name = f"two ranks under Gloo, batch {BATCH_A_RANK} a rank, one thread each"
    report.add(Figure("scaling", name, "samples/s", values["two"], values["one"], target_ratio=1.7))
    report.add(Figure("scaling", "a rank's share of the gradients of a step", "MB", [sent_megabytes(BATCH_A_RANK)],
                      note="the small weights whole, of the tables each row the batch names once"))  # fmt: skip
    report.add(Figure("input", "share of a training step spent waiting for the batch", "", waits, target=0.05,
                      lower_is_better=True))  # fmt: skip


def sent_megabytes(rows: int) -> float:
    """What one rank gives to the reductions of a step whose share of the batch is ``rows``."""
    model, _ = our_step()
    data = tensors(rows, 1)
    with tf.GradientTape() as tape:
        _, terms = model.loss_terms(
            {name: values for name, values in data.items() if name != "label"}, tf.cast(data["label"], tf.float32)
        )
        loss = loss_of(terms.values())
    gradients = tape.gradient(loss, model.trainable_variables)
    parts = [part for g in gradients for part in (sum_by_row(g) if isinstance(g, tf.IndexedSlices) else (g,))]
    return sum(int(tf.size(part)) * part.dtype.size for part in parts) / 1e6


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
