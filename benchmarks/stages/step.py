"""One training step of SIM, against a plain Keras step with dense Adam from the same weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from benchmarks.machine import matmul_gflops
from benchmarks.measuring import Figure, Plan, Report, alternated, seconds
from benchmarks.published import PUBLISHED
from benchmarks.reference.sim import ReferenceSim, copy_weights, training_step
from benchmarks.samples import CATEGORIES, ITEMS, USERS, batch, specification
from benchmarks.training import Batch, Step, share_of_peak, signature, worker_step

SIZE, LAZY_SIZES = 16_384, (4096, 16_384)
CURVE_SIZE, CURVE_RUNS, CURVE_RUN_STEPS = 4096, 5, 20
Steps = dict[str, Callable[[Batch], tf.Tensor]]


def our_step(optimizer: str = "adam") -> Step:
    """SIM with the cardinalities of Amazon Books."""
    return worker_step("sim", specification(), optimizer=optimizer, **PUBLISHED)


def reference_step(model: Any) -> Callable[[Batch], tf.Tensor]:
    """The reference, with a copy of the current weights of ``model``."""
    reference = ReferenceSim({"item": ITEMS, "cat": CATEGORIES, "uid": USERS})
    reference({name: values for name, values in tensors(8, 0).items() if name != "label"})
    copy_weights(model, reference)
    features = {name: kind for name, kind in signature(specification()).items() if name != "label"}
    step = training_step(reference, keras.optimizers.Adam(0.01), features)

    def run(features: Batch) -> tf.Tensor:
        values = dict(features)
        return step(values, tf.cast(values.pop("label"), tf.float32))

    return run


def tensors(rows: int, seed: int) -> Batch:
    return {name: tf.constant(values) for name, values in batch(rows, seed).items()}


def measure(folder: Path, plan: Plan, report: Report) -> None:
    sim = our_step()
    steps = {"ours": sim.run, "reference": reference_step(sim.model)}
    losses, values = _trained(steps)
    name = f"largest difference of the loss, {len(losses['ours'])} steps, batch {CURVE_SIZE}"
    differences = [abs(one - other) for one, other in zip(losses["ours"], losses["reference"], strict=True)]
    report.add(Figure("train", name, "", [max(differences)], target=1e-3, lower_is_better=True))
    _add(report, CURVE_SIZE, values)
    _add(report, SIZE, _measured(steps, SIZE, plan.runs))
    if plan.full:
        steps["ours"] = our_step("lazy_adam").run
        for size in LAZY_SIZES:
            values = _measured(steps, size, plan.runs)
            name = f"SIM step, lazy Adam, batch {size}"
            report.add(Figure("train", name, "samples/s", values["ours"], values["reference"]))


def _add(report: Report, size: int, values: dict[str, list[float]]) -> None:
    name = f"SIM step, batch {size}"
    report.add(Figure("train", name, "samples/s", values["ours"], values["reference"], target_ratio=1))
    for counted, as_published in (("as published", True), ("after the algebra", False)):
        name = f"useful work of the matmul peak, counted {counted}, batch {size}"
        report.add(share_of_peak(name, values, flops_per_sample(as_published)))


def _trained(steps: Steps) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Losses and samples/s of both, trained on the same batches."""
    losses = {name: [float(step(tensors(CURVE_SIZE, 0)))] for name, step in steps.items()}  # compiles

    def run(name: str) -> float:
        first = len(losses[name])
        batches = [tensors(CURVE_SIZE, first + number) for number in range(CURVE_RUN_STEPS)]
        taken = seconds(lambda: losses[name].extend(float(steps[name](data)) for data in batches))
        return CURVE_RUN_STEPS * CURVE_SIZE / taken

    return losses, _beside_peak(CURVE_RUNS, {name: partial(run, name) for name in steps})


def _measured(steps: Steps, size: int, runs: int) -> dict[str, list[float]]:
    """Samples/s of both with the same batch."""
    data = tensors(size, 1)
    jobs = {name: partial(_speed, step, data, size) for name, step in steps.items()}
    alternated(1, **jobs)
    return _beside_peak(runs, jobs)


def _speed(step: Callable[[Batch], tf.Tensor], data: Batch, size: int) -> float:
    return size / seconds(lambda: np.asarray(step(data)))


def _beside_peak(runs: int, jobs: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """The jobs' values, and the matmul peak right after ours: the host's speed drifts within half a minute."""
    return alternated(runs, ours=jobs["ours"], peak=matmul_gflops, reference=jobs["reference"])


def flops_per_sample(
    as_published: bool = False, width: int = 32, units: int = 96, long: int = 90, short: int = 10
) -> float:
    """Floating-point operations of the matrix products of one sample's forward and backward pass.

    The minimum: every product once, after algebraic simplifications that do not change the result. A multiply-add
    counts as two operations, the backward pass as twice the forward pass. Look-ups and element-wise operations are not
    counted.

    Args:
        as_published: without the simplifications: first layers over all operands (four in the attention unit, two in
            the auxiliary network) at each position, and products with the zero initial state.
        width: of an item's embedding.
        units: of a state.
        long, short: lengths of the histories.
    """
    later = short if as_published else short - 1
    recurrence = short * 3 * width * units + later * 3 * units * units
    evolution = short * 3 * units * units + later * 3 * units * units
    operands = short * 4 * units if as_published else units + short * 2 * units
    attention = width * units + operands * 80 + short * (80 * 40 + 40)
    states = 2 * units if as_published else units
    next_item = (short - 1) * (states * 100 + 2 * (width * 100 + 100 * 50 + 50))
    search = long * width * 4
    user = width // 2
    stage_one = (2 * width + user) * 200 + 200
    stage_two = (3 * width + units + user) * 200 + 200 * 80 + 80
    forward = 2.0 * (recurrence + evolution + attention + next_item + search + stage_one + stage_two)
    return 3 * forward
