"""GPU training steps, traced or ready to run: SIM's with the sizes of Amazon Books, and ELECTRA's of both phases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.gpu_model.graph import FlatGraph, flatten
from benchmarks.published import PUBLISHED
from benchmarks.samples import specification
from benchmarks.token_records import specification as texts
from components import registry
from components.feature_spec import FeatureSpec
from components.models.ops.choice import as_with_gpu
from components.models.optimizers.groups import Optimizers
from components.steps.catalog import worker_parameters
from components.tasks import Streaming
from components.tasks.binary.streaming import BinaryMetrics
from components.train.loop.loss_scale import LossScale
from components.train.loop.ranks import Alone
from components.train.loop.tables import build_model
from components.train.loop.training_step import Inputs, StepOptions, TrainingStep
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


@dataclass(frozen=True)
class Phase:
    """A phase of ELECTRA's pre-training, on one GPU.

    Attributes:
        name: for display.
        length: tokens of a text.
        samples: texts of the published micro-batch in mixed precision.
        published: texts/s of the public program on one A100 40 GB, in mixed precision.
    """

    name: str
    length: int
    samples: int
    published: int


PHASES = (Phase("phase 1, 128 tokens", 128, 176, 955), Phase("phase 2, 512 tokens", 512, 24, 171))
_VOCABULARY = 30_522


class _NoMetrics(tf.Module):
    """``components.tasks.Streaming`` that measures nothing: a task of tokens selects those that are no padding, whose
    number is not static."""

    def update(self, targets: object, outputs: object, kept: object) -> None:
        pass

    def reset(self) -> None:
        pass


def traced_phase(phase: Phase, vocabulary: int = _VOCABULARY, **settings: Any) -> FlatGraph:
    """The graph of a step of one micro-batch in mixed precision with XLA, and of LAMB's update.

    Args:
        phase: the phase.
        vocabulary: number of tokens.
        settings: other parameters of the worker, such as sizes, instead of those of the base model.
    """
    spec = texts(Path(), phase.length, vocabulary)
    with as_with_gpu():
        precision = Precision(phase.name, amp=True, xla=True, published=phase.published)
        step, _ = _step("electra", spec, precision, phase.samples, _NoMetrics(), {}, settings)
        return flatten(step.run.get_concrete_function())


def traced(precision: Precision, samples: int = SAMPLES) -> FlatGraph:
    """The graph of a step of ``samples`` samples on one GPU."""
    with as_with_gpu():
        step, _ = step_of(precision, samples)
        return flatten(step.run.get_concrete_function())


def step_of(precision: Precision, samples: int = SAMPLES) -> tuple[TrainingStep, Transfer]:
    """A step of ``samples`` samples, and the transfer of its batches."""
    metrics = BinaryMetrics(with_loss=False)
    return _step("sim", specification(), precision, samples, metrics, {"label": tf.float32}, PUBLISHED)


def _step(
    model_type: str,
    spec: FeatureSpec,
    precision: Precision,
    samples: int,
    metrics: Streaming,
    targets: dict[str, tf.DType],
    settings: dict[str, Any],
) -> tuple[TrainingStep, Transfer]:
    parameters = worker_parameters(model_type)(
        model_type=model_type, seed=1, amp=precision.amp, xla=precision.xla, **settings
    )
    definition = registry.model(model_type)
    model = build_model(definition, parameters, spec, seed=1)
    rule = Optimizers(definition.optimizers(parameters, model, 1), model.trainable_variables)
    signature = {
        name: tf.TensorSpec((samples,) if feature.length is None else (samples, feature.length), id_type(), name)
        for name, feature in spec.features.items()
    }
    handed = transfer(signature)
    step = TrainingStep(
        model,
        rule,
        Alone(),
        metrics,
        LossScale(precision.amp),
        Inputs(handed.signature, targets, unpack=handed.features),
        StepOptions(xla=precision.xla),
    )
    return step, handed
