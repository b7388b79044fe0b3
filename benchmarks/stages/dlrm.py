"""One training step of DLRM with the published sizes, against the peak of a matrix product."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.machine import matmul_gflops
from benchmarks.measuring import Figure, Plan, Report, alternated, seconds
from components import registry
from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL
from components.datasets.criteo.synthetic.impressions import cardinalities, power_law
from components.feature_spec import Channel, Feature, FeatureSpec
from components.models import build_model
from components.models.optimizers.groups import Optimizers
from components.steps.catalog import worker_parameters
from components.tasks.binary.streaming import BinaryMetrics
from components.train.loop.loss_scale import LossScale
from components.train.loop.ranks import Alone
from components.train.loop.training_step import TrainingStep

SIZE, VALUES, EXPONENT = 16_384, 100_000, 1.45


def measure(folder: Path, plan: Plan, report: Report) -> None:
    parameters = worker_parameters("dlrm")(model_type="dlrm", seed=1)
    step, batch = training_step(parameters), batch_of(SIZE)
    step(batch).numpy()  # compiles
    values = alternated(plan.runs, ours=lambda: SIZE / seconds(lambda: np.asarray(step(batch))), peak=matmul_gflops)
    work = flops_per_sample(parameters) / 1e9
    shares = [value * work / peak for value, peak in zip(values["ours"], values["peak"], strict=True)]
    peaks = f"{min(values['peak']):.0f} to {max(values['peak']):.0f} GFLOP/s"
    report.add(Figure("train", f"DLRM step, batch {SIZE}", "samples/s", values["ours"]))
    report.add(
        Figure(
            "train", f"DLRM step, useful work of the matmul peak, batch {SIZE}", "", shares, target=0.6,
            note=f"{work * 1e3:.1f} MFLOP a sample; the peak was measured beside each run, {peaks}",
        )
    )  # fmt: skip


def specification() -> FeatureSpec:
    """The data set's, with columns of at most ``VALUES`` values."""
    sizes = zip(CATEGORICAL, cardinalities(VALUES), strict=True)
    features = [
        Feature(LABEL, "bool"),
        *(Feature(name, "float32") for name in NUMERICAL),
        *(Feature(name, "int64", size) for name, size in sizes),
    ]
    channels = {Channel.LABEL: (LABEL,), Channel.NUMERICAL: NUMERICAL, Channel.CATEGORICAL: CATEGORICAL}
    return FeatureSpec({feature.name: feature for feature in features}, {}, channels)


def training_step(parameters: Any) -> Any:
    """The step that the worker runs."""
    spec = specification()
    model = build_model(parameters, spec)
    rule = Optimizers(registry.model("dlrm").optimizers(parameters, model, 1), model.trainable_variables)
    kinds = {name: tf.float32 if feature.is_float else tf.int32 for name, feature in spec.features.items()}
    signature = {name: tf.TensorSpec((None,), kind, name=name) for name, kind in kinds.items()}
    metrics = BinaryMetrics(with_loss=False)
    return TrainingStep(model, rule, Alone(), metrics, LossScale(False), signature, LABEL, False).run


def batch_of(rows: int) -> dict[str, tf.Tensor]:
    """Samples whose ids follow the power law of the synthetic data."""
    random = np.random.default_rng(0)
    batch = {LABEL: random.integers(0, 2, rows).astype(np.int32)}
    batch |= {name: random.random(rows).astype(np.float32) for name in NUMERICAL}
    for name, size in zip(CATEGORICAL, cardinalities(VALUES), strict=True):
        batch[name] = (power_law(random.random(rows), size, EXPONENT) + 1).astype(np.int32)
    return {name: tf.constant(values) for name, values in batch.items()}


def flops_per_sample(parameters: Any) -> float:
    """Floating-point operations of the matrix products of one sample's forward and backward pass.

    A multiply-add counts as two operations, the backward pass as twice the forward pass; each pair of vectors is
    multiplied once. Look-ups and element-wise operations are not counted.
    """
    vectors, width = 1 + len(CATEGORICAL), parameters.embedding_dim
    pairs = vectors * (vectors - 1) // 2
    layers = [*pairwise((len(NUMERICAL), *parameters.bottom_mlp_dims))]
    layers += [*pairwise((width + pairs, *parameters.top_mlp_dims))]
    return 3 * 2.0 * (sum(inputs * units for inputs, units in layers) + pairs * width)
