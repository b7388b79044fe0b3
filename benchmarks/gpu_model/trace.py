"""SIM's GPU training step with the sizes of Amazon Books, traced or ready to run."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from benchmarks.gpu_model.graph import FlatGraph, flatten
from benchmarks.published import PUBLISHED
from benchmarks.samples import specification
from components import registry
from components.models.ops.choice import as_with_gpu
from components.models.optimizers.groups import Optimizers
from components.steps.catalog import worker_parameters
from components.tasks.binary.streaming import BinaryMetrics
from components.train.building import build_model
from components.train.loop.loss_scale import LossScale
from components.train.loop.ranks import Alone
from components.train.loop.training_step import TrainingStep
from components.train.loop.transfer import Transfer, id_type, transfer

SAMPLES = 131_072


@dataclass(frozen=True)
class Precision:
    """Precision and compilation of a step.

    Attributes:
        name: for display.
        amp: mixed precision.
        xla: XLA compiles the forward and backward pass.
        published: samples/s of the public SIM on one A100 80 GB.
    """

    name: str
    amp: bool
    xla: bool
    published: int


PRECISIONS = (
    Precision("float32", False, False, 377_255),
    Precision("AMP", True, False, 479_922),
    Precision("AMP, XLA", True, True, 565_221),
)


def traced(precision: Precision, samples: int = SAMPLES) -> FlatGraph:
    """The graph of a step of ``samples`` samples on one GPU."""
    with as_with_gpu():
        step, _ = step_of(precision, samples)
        return flatten(step.run.get_concrete_function())


def step_of(precision: Precision, samples: int = SAMPLES) -> tuple[TrainingStep, Transfer]:
    """A step of ``samples`` samples, and the transfer of its batches."""
    parameters = worker_parameters("sim")(seed=1, amp=precision.amp, xla=precision.xla, **PUBLISHED)
    spec = specification()
    model = build_model(parameters, spec, seed=1)
    rule = Optimizers(registry.model("sim").optimizers(parameters, model, 1), model.trainable_variables)
    signature = {
        name: tf.TensorSpec((samples,) if feature.length is None else (samples, feature.length), id_type(), name)
        for name, feature in spec.features.items()
    }
    handed = transfer(signature)
    step = TrainingStep(
        model,
        rule,
        Alone(),
        BinaryMetrics(with_loss=False),
        LossScale(precision.amp),
        handed.signature,
        {"label": tf.float32},
        precision.xla,
        unpack=handed.features,
    )
    return step, handed
