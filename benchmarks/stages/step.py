"""One training step of SIM, against a plain Keras step with dense Adam from the same weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.machine import matmul_gflops
from benchmarks.measuring import Figure, Plan, Report, alternated, seconds
from benchmarks.reference.sim import ReferenceSim, copy_weights, training_step
from benchmarks.samples import CATEGORIES, ITEMS, USERS, batch, specification
from components.models import build_model, make_optimizer
from components.steps.catalog import TrainParameters
from components.train.auc import LogitHistogram
from components.train.loss_scale import LossScale
from components.train.ranks import Alone
from components.train.training_step import TrainingStep

SIZES, SAMPLES_A_RUN = (4096, 16_384), 8192
CURVE_STEPS, CURVE_BATCH = 100, 4096
Batch = dict[str, tf.Tensor]
Steps = dict[str, Callable[[Batch], tf.Tensor]]


def our_step(optimizer: str = "adam") -> tuple[Any, Callable[[Batch], tf.Tensor]]:
    """The model and the step the worker runs, from a fixed seed."""
    parameters = TrainParameters(seed=1, optimizer=optimizer)
    spec = specification()
    model = build_model(parameters, spec, seed=1)
    rule = make_optimizer(parameters)
    rule.build(list(model.trainable_variables))
    signature = {
        name: tf.TensorSpec((None,) if feature.length is None else (None, feature.length), tf.int32, name=name)
        for name, feature in spec.features.items()
    }
    step = TrainingStep(
        model, rule, Alone(), LogitHistogram(), LossScale(False), signature, "label", optimizer != "adam", False
    )
    return model, step.run


def reference_step(model: Any) -> Callable[[Batch], tf.Tensor]:
    """The reference with the weights that ``model`` has now."""
    reference = ReferenceSim({"item": ITEMS, "cat": CATEGORIES, "uid": USERS})
    reference({name: values for name, values in tensors(8, 0).items() if name != "label"})
    copy_weights(model, reference)
    step = training_step(reference, tf.keras.optimizers.Adam(0.01))

    def run(features: Batch) -> tf.Tensor:
        values = dict(features)
        return step(values, tf.cast(values.pop("label"), tf.float32))

    return run


def tensors(rows: int, seed: int) -> Batch:
    return {name: tf.constant(values) for name, values in batch(rows, seed).items()}


def measure(folder: Path, plan: Plan, report: Report) -> None:
    model, ours = our_step()
    steps = {"ours": ours, "reference": reference_step(model)}
    peak = matmul_gflops()

    name = f"largest difference of the loss, {CURVE_STEPS} steps, batch {CURVE_BATCH}"
    report.add(Figure("train", name, "", [_largest_difference(steps, CURVE_BATCH)], target=1e-3, lower_is_better=True))
    for size in SIZES:
        _add(report, size, _measured(steps, size, plan.runs), peak)
    if plan.full:
        steps["ours"] = our_step("lazy_adam")[1]
        for size in SIZES:
            values = _measured(steps, size, plan.runs)
            name = f"SIM step, lazy Adam, batch {size}"
            report.add(Figure("train", name, "samples/s", values["ours"], values["reference"]))


def _add(report: Report, size: int, values: dict[str, list[float]], peak: float) -> None:
    name = f"SIM step, batch {size}"
    report.add(Figure("train", name, "samples/s", values["ours"], values["reference"], target_ratio=2))
    work = flops_per_sample() / 1e9
    shares = [value * work / peak for value in values["ours"]]
    report.add(Figure("train", f"useful work of the matmul peak, batch {size}", "", shares, target=0.6,
                      note=f"matmul peak {peak:.0f} GFLOP/s, {work * 1e3:.1f} MFLOP a sample"))  # fmt: skip


def _largest_difference(steps: Steps, size: int) -> float:
    """How far apart the losses of both are where they are furthest, trained on the same batches."""
    differences = []
    for number in range(CURVE_STEPS):
        data = tensors(size, number)
        ours, theirs = (float(step(data)) for step in steps.values())
        differences.append(abs(ours - theirs))
    return max(differences)


def _measured(steps: Steps, size: int, runs: int) -> dict[str, list[float]]:
    """Samples/s of both with the same batch."""
    data = tensors(size, 1)
    jobs = {name: _speed(step, data, size) for name, step in steps.items()}
    alternated(1, **jobs)
    return alternated(runs, **jobs)


def _speed(step: Callable[[Batch], tf.Tensor], data: Batch, size: int) -> Callable[[], float]:
    count = max(SAMPLES_A_RUN // size, 1)

    def run() -> None:
        for _ in range(count):
            np.asarray(step(data))

    return lambda: count * size / seconds(run)


def flops_per_sample(width: int = 32, units: int = 96, long: int = 90, short: int = 10) -> float:
    """Floating-point operations that one sample's forward and backward pass cannot do without.

    Every matrix product of the model once, after the algebra that changes no result: the first layers of the attention
    unit and of the auxiliary network by operand, no product with a state of zeros. Two operations a multiply-add, and
    twice the forward work for the backward pass. Lookups and element-wise work are not counted.
    """
    recurrence = short * 3 * width * units + (short - 1) * 3 * units * units
    evolution = short * 3 * units * units + (short - 1) * 3 * units * units
    attention = width * units + units * 80 + short * (2 * units * 80 + 80 * 40 + 40)
    next_item = (short - 1) * (units * 100 + 2 * (width * 100 + 100 * 50 + 50))
    search = long * width * 4
    user = width // 2
    stage_one = (2 * width + user) * 200 + 200
    stage_two = (3 * width + units + user) * 200 + 200 * 80 + 80
    forward = 2.0 * (recurrence + evolution + attention + next_item + search + stage_one + stage_two)
    return 3 * forward
