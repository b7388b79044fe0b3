"""The worker's training step of any model, on random samples instead of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from benchmarks.machine import matmul_gflops
from benchmarks.measuring import Figure, Plan, Report, alternated, seconds
from components import registry
from components.feature_spec import FeatureSpec
from components.models import Model
from components.models.optimizers.groups import Optimizers
from components.steps.catalog import worker_parameters
from components.tasks import kept_features
from components.train.loop.loss_scale import LossScale
from components.train.loop.ranks import Alone
from components.train.loop.tables import build_model
from components.train.loop.training_step import Inputs, StepOptions, TrainingStep

Batch = dict[str, tf.Tensor]


class Step(NamedTuple):
    """A training step.

    Attributes:
        parameters: of the worker.
        model: updated in place.
        run: maps a batch of any size to its loss.
    """

    parameters: Any
    model: Model
    run: Callable[[Batch], tf.Tensor]


def worker_step(model_type: str, spec: FeatureSpec, **settings: Any) -> Step:
    """The worker's step on one rank, with a fixed seed.

    Args:
        model_type: the model, with its default parameters.
        spec: the features.
        settings: other parameters of the worker.
    """
    parameters = worker_parameters(model_type)(model_type=model_type, seed=1, **settings)
    definition = registry.model(model_type)
    task = registry.task(definition.task)
    model = build_model(definition, parameters, spec, parameters.seed)
    rule = Optimizers(definition.optimizers(parameters, model, 1), model.trainable_variables)
    step = TrainingStep(
        model,
        rule,
        Alone(),
        task.streaming(True, parameters),
        LossScale(parameters.amp),
        Inputs(
            signature(spec), {target.name: tf.float32 for target in spec.targets}, kept_features(spec, task.streamed)
        ),
        StepOptions(xla=parameters.xla),
    )
    return Step(parameters, model, step.run)


def signature(spec: FeatureSpec) -> dict[str, tf.TensorSpec]:
    """The input signature for any batch size, so that the step is traced once."""
    return {
        name: tf.TensorSpec(
            (None,) if feature.length is None else (None, feature.length),
            tf.float32 if feature.is_float else tf.int32,
            name=name,
        )
        for name, feature in spec.features.items()
    }


def flops(layers: Sequence[Sequence[int]], products: int = 0) -> float:
    """Floating-point operations of the matrix products of one sample's forward and backward pass.

    A multiply-add counts as two operations, the backward pass as twice the forward pass. Look-ups and element-wise
    operations are not counted.

    Args:
        layers: layer widths of each network, inputs first.
        products: multiply-adds outside the networks.
    """
    return 3 * 2.0 * (products + sum(inputs * units for widths in layers for inputs, units in pairwise(widths)))


def share_of_peak(name: str, values: Mapping[str, Sequence[float]], work: float) -> Figure:
    """The share of the matmul peak; its target is 0.6.

    Args:
        name: of the figure.
        values: ``ours`` in samples/s and ``peak`` in GFLOP/s, interleaved.
        work: useful floating-point operations per sample.
    """
    shares = [speed * work / 1e9 / peak for speed, peak in zip(values["ours"], values["peak"], strict=True)]
    peaks = f"{min(values['peak']):.0f} to {max(values['peak']):.0f} GFLOP/s"
    note = f"{work / 1e6:.1f} MFLOP a sample; the peak was measured beside each run, {peaks}"
    return Figure("train", name, "", shares, target=0.6, note=note)


def measure_step(report: Report, plan: Plan, title: str, step: Step, batch: Batch, work: float) -> None:
    """Measures a step beside the matmul peak.

    Args:
        report: receives the figures.
        plan: number of runs.
        title: of the model.
        step: to measure.
        batch: input of every run.
        work: useful floating-point operations per sample.
    """
    size = int(next(iter(batch.values())).shape[0])
    step.run(batch).numpy()  # compiles

    def speed() -> float:
        return size / seconds(lambda: np.asarray(step.run(batch)))

    values = alternated(plan.runs, ours=speed, peak=matmul_gflops)
    report.add(Figure("train", f"{title} step, batch {size}", "samples/s", values["ours"]))
    report.add(share_of_peak(f"{title} step, useful work of the matmul peak, batch {size}", values, work))
