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
    """The interface of an optimizer, a ``tf.Module`` with checkpointed variables.

    Attributes:
        name: such as "adam".
        keeps_sparse: whether rows missing from a sparse gradient stay unchanged.
        takes_scaling: optional; ``apply`` takes a :class:`components.models.ops.scaling.Scaling` as second argument,
            and gradients of a skipped step may not be finite. Otherwise mixed precision costs a pass over the
            gradients, and a condition for which the host waits for the device.
    """

    @property
    def name(self) -> str: ...

    @property
    def keeps_sparse(self) -> bool: ...

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Creates the state for ``variables``, before a checkpoint is restored or a step is compiled."""

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]]) -> None:
        """Applies one step. A gradient is a tensor or ``tf.IndexedSlices``, possibly with repeated rows."""


def one_optimizer(parameters: OneOptimizer, model: Model, steps_per_epoch: int) -> list[OptimizerGroup]:
    """One group of all variables, with the optimizer that the parameters name."""
    from components.models.optimizers.groups import OptimizerGroup

    optimizer = make_optimizer(parameters.optimizer, parameters.lr, weight_decay=parameters.weight_decay)
    return [OptimizerGroup(optimizer, model.trainable_variables)]


def make_optimizer(name: str, learning_rate: Rate, **settings: Any) -> Optimizer:
    """Makes an optimizer.

    Args:
        name: adam, adamw, lazy_adam, lamb, sgd, ftrl or rmsprop.
        learning_rate: a number or a schedule.
        settings: its other arguments, such as ``weight_decay`` of the first five.
    """
    from components.models.optimizers.adam import Adam
    from components.models.optimizers.adamw import AdamW
    from components.models.optimizers.ftrl import Ftrl
    from components.models.optimizers.lamb import Lamb
    from components.models.optimizers.lazy_adam import LazyAdam
    from components.models.optimizers.rmsprop import RmsProp
    from components.models.optimizers.sgd import Sgd

    optimizers: dict[str, Callable[..., Optimizer]] = {
        "adam": Adam,
        "adamw": AdamW,
        "lazy_adam": LazyAdam,
        "lamb": Lamb,
        "sgd": Sgd,
        "ftrl": Ftrl,
        "rmsprop": RmsProp,
    }
    return optimizers[name](learning_rate, **settings)
