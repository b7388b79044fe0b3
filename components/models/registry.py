"""From ``model_type`` to a model."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from components.feature_spec import FeatureSpec
from components.models.loss import LossTerm
from components.steps.catalog import TrainParameters

if TYPE_CHECKING:
    import tensorflow as tf


class Model(Protocol):
    """What the trainer, the evaluation and the export know of a model.

    Every model is a ``tf.Module``: its variables exist as soon as it is built.

    Attributes:
        serving_features: names of the features that :meth:`logits` reads.
        trainable_variables: what an optimizer updates, in an order that never changes.
        variables: all of them, the same.
    """

    serving_features: tuple[str, ...]

    @property
    def variables(self) -> Sequence[tf.Variable]: ...

    @property
    def trainable_variables(self) -> Sequence[tf.Variable]: ...

    def logits(self, features: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        """Scores samples.

        Args:
            features: integer ids by feature name, ``[B]`` or ``[B, length]``; B may be 0. An id outside 0..cardinality
                reads as 0, the padding.
            training: whether dropout is on.

        Returns:
            float32 ``[B]``; its sigmoid is the probability of a click.
        """

    def loss_terms(
        self, features: Mapping[str, tf.Tensor], labels: tf.Tensor, training: bool = True
    ) -> tuple[tf.Tensor, dict[str, LossTerm]]:
        """Scores samples and adds up their losses.

        Args:
            features: as for :meth:`logits`, with the negative history where the model learns from one.
            labels: float32 ``[B]``, 1 for a click.
            training: whether dropout is on.

        Returns:
            The logits, float32 ``[B]``, and the terms of the loss by name.
        """


def build_model(parameters: TrainParameters, spec: FeatureSpec, *, seed: int | None = None) -> Model:
    """Builds ``parameters.model_type`` with fresh weights.

    The computation runs in float16 where ``parameters.amp`` is set; weights, softmaxes, logits and losses stay float32.

    Args:
        parameters: the model's sizes.
        spec: the features and channels of the records.
        seed: fixes every weight, whatever the device or the rank; None takes ``parameters.seed``.

    Raises:
        KfrecError: the channels of ``spec`` do not fit the model.
    """
    module = importlib.import_module(f"components.models.{parameters.model_type}")
    model: Model = module.build(parameters, spec, parameters.seed if seed is None else seed)
    return model
