"""Optimizers over dense and sparse gradients, inside or outside ``tf.function``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import tensorflow as tf

    from components.models.model import Model
    from components.models.optimizers.groups import OptimizerGroup
    from components.models.optimizers.schedules import Rate
    from components.models.parameters import OneOptimizer


class Optimizer(Protocol):
    """What the trainer knows of an optimizer; it is a ``tf.Module`` whose variables belong in a checkpoint.

    Attributes:
        name: such as "adam".
        keeps_sparse: it leaves alone the rows that a sparse gradient does not name.
        takes_scaling: its ``apply`` takes, as a second argument, a :class:`components.models.ops.scaling.Scaling` of
            the gradients, which may not be finite where the step is not taken. Without, mixed precision costs a pass
            over the gradients, and a condition for which the host waits for the device. Optional.
    """

    @property
    def name(self) -> str: ...

    @property
    def keeps_sparse(self) -> bool: ...

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Makes the state for ``variables``, before a checkpoint is restored or a step is compiled."""

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]]) -> None:
        """Takes one step. A gradient is a tensor or ``tf.IndexedSlices``, in which a row may occur more than once."""


def one_optimizer(parameters: OneOptimizer, model: Model, steps_per_epoch: int) -> list[OptimizerGroup]:
    """One group: every variable with the optimizer that the parameters name."""
    from components.models.optimizers.groups import OptimizerGroup

    optimizer = make_optimizer(parameters.optimizer, parameters.lr, weight_decay=parameters.weight_decay)
    return [OptimizerGroup(optimizer, model.trainable_variables)]


def make_optimizer(name: str, learning_rate: Rate, **settings: float) -> Optimizer:
    """Makes an optimizer.

    Args:
        name: adam, lazy_adam, sgd, ftrl or rmsprop.
        learning_rate: a number or a schedule.
        settings: its other arguments, such as ``weight_decay`` of the first three.
    """
    from components.models.optimizers.adam import Adam
    from components.models.optimizers.ftrl import Ftrl
    from components.models.optimizers.lazy_adam import LazyAdam
    from components.models.optimizers.rmsprop import RmsProp
    from components.models.optimizers.sgd import Sgd

    optimizers: dict[str, Callable[..., Optimizer]] = {
        "adam": Adam,
        "lazy_adam": LazyAdam,
        "sgd": Sgd,
        "ftrl": Ftrl,
        "rmsprop": RmsProp,
    }
    return optimizers[name](learning_rate, **settings)
