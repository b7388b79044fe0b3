"""Optimizers over dense and sparse gradients, inside or outside ``tf.function``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import tensorflow as tf

    from components.steps.catalog import TrainParameters


class Optimizer(Protocol):
    """What the trainer knows of an optimizer; it is a ``tf.Module`` whose variables belong in a checkpoint."""

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Makes the state for ``variables``, before a checkpoint is restored or a step is compiled."""

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]]) -> None:
        """Takes one step. A gradient is a tensor or ``tf.IndexedSlices``, in which a row may occur more than once."""


def make_optimizer(parameters: TrainParameters) -> Optimizer:
    """The optimizer that ``parameters.optimizer`` names, with its lr and weight_decay."""
    from components.models.optimizers.adam import Adam
    from components.models.optimizers.lazy_adam import LazyAdam
    from components.models.optimizers.sgd import Sgd

    optimizers: dict[str, type[Adam | Sgd]] = {"adam": Adam, "lazy_adam": LazyAdam, "sgd": Sgd}
    return optimizers[parameters.optimizer](parameters.lr, parameters.weight_decay)
