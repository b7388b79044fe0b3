"""Steps of built-in models, and ranks that are alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import tensorflow as tf

from components import registry
from components.feature_spec import Channel, FeatureSpec
from components.models.optimizers.groups import Optimizers
from components.tasks.binary.streaming import BinaryMetrics
from components.train.loop.loss_scale import LossScale
from components.train.loop.ranks import Alone, Ranks
from components.train.loop.training_step import Inputs, StepOptions, TrainingStep
from components.train.loop.transfer import Shared, Transfer
from tests.train.building import build_model

T = TypeVar("T")


class OneOfTwo(Alone):
    """One of two ranks of a machine, which are alike."""

    size = local_size = 2

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank

    def gather(self, value: T) -> list[T]:
        return [value, value]


def build_step(
    parameters: Any,
    spec: FeatureSpec,
    ids: tf.DType = tf.int32,
    ranks: Ranks | None = None,
    rows: int = 0,
    way: Callable[[Mapping[str, tf.TensorSpec]], Transfer] = Shared,
    micro: int = 0,
) -> TrainingStep:
    """A step of the model that the parameters name, which takes ids of this type.

    Samples count as the feature of the channel weight says.
    """
    model = build_model(parameters, spec, seed=1)
    groups = registry.model(parameters.model_type).optimizers(parameters, model, 1)
    optimizer = Optimizers(groups, model.trainable_variables)
    signature = {
        name: tf.TensorSpec(
            (None,) if f.length is None else (None, f.length), tf.float32 if f.is_float else ids, name=name
        )
        for name, f in spec.features.items()
    }
    handed = way(signature)
    metrics, scale = BinaryMetrics(with_loss=False), LossScale(parameters.amp)
    return TrainingStep(
        model, optimizer, ranks or Alone(), metrics, scale,
        Inputs(
            handed.signature,
            {"label": tf.float32},
            rows=rows,
            unpack=handed.features,
            weight=next(iter(spec.channels.get(Channel.WEIGHT, ())), ""),
        ),
        StepOptions(xla=parameters.xla, micro=micro, clip_norm=parameters.clip_norm),
    )  # fmt: skip
