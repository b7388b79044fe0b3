"""Optimizers over dense and sparse gradients, inside or outside ``tf.function``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from components.models.model import Model, Optimizer

if TYPE_CHECKING:
    from components.models.optimizers.groups import OptimizerGroup
    from components.models.optimizers.schedules import Rate
    from components.models.parameters import OneOptimizer


def one_optimizer(parameters: OneOptimizer, model: Model, steps_per_epoch: int) -> list[OptimizerGroup]:
    """One group of all variables, with the optimizer that the parameters name."""
    from components.models.optimizers.groups import OptimizerGroup

    optimizer = make_optimizer(parameters.optimizer, parameters.lr, weight_decay=parameters.weight_decay)
    return [OptimizerGroup(optimizer, model.trainable_variables)]


def adam_by_rows(model: Any, learning_rate: Rate) -> list[OptimizerGroup]:
    """Adam, which updates only those rows of ``model.tables`` that are in the batch."""
    from components.models.optimizers.groups import OptimizerGroup

    tables = {table.variable.ref(): table.variable for table in model.tables.values()}
    rest = [variable for variable in model.trainable_variables if variable.ref() not in tables]
    return [
        OptimizerGroup(make_optimizer("lazy_adam", learning_rate), list(tables.values())),
        OptimizerGroup(make_optimizer("adam", learning_rate), rest),
    ]


def make_optimizer(name: str, learning_rate: Rate, **settings: Any) -> Optimizer:
    """Makes an optimizer.

    Args:
        name: adam, adamw, lazy_adam, lamb, sgd, ftrl or rmsprop.
        learning_rate: a number or a schedule.
        settings: its other arguments, such as ``weight_decay`` of the first five.
    """
    from components.models.optimizers.adam import Adam, LazyAdam
    from components.models.optimizers.adamw import AdamW
    from components.models.optimizers.ftrl import Ftrl
    from components.models.optimizers.lamb import Lamb
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
