"""A model's optimizers for disjoint groups of variables, behind one interface."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from components.errors import KfrecError
from components.models.model import Optimizer
from components.models.names import by_name
from components.models.ops.scaling import UNSCALED, Scaling


@dataclass(frozen=True)
class OptimizerGroup:
    """Variables, and the optimizer that updates them.

    Attributes:
        optimizer: for these variables only.
    """

    optimizer: Optimizer
    variables: Sequence[tf.Variable]


class Optimizers(tf.Module):
    """Updates every variable with the optimizer of its group.

    Args:
        groups: a partition of the model's trainable variables.
        variables: of the model, in its order.

    Raises:
        KfrecError: a variable is in no group or in two, or something else is among the groups.
    """

    def __init__(self, groups: Sequence[OptimizerGroup], variables: Sequence[tf.Variable]) -> None:
        super().__init__()
        for group in groups:
            if not isinstance(group, OptimizerGroup):
                raise KfrecError(f"the optimizers of the model have a {type(group).__name__}; return OptimizerGroups")
        self.optimizers = [group.optimizer for group in groups]
        owner: dict[Any, int] = {}
        for number, group in enumerate(groups):
            for variable in group.variables:
                if owner.setdefault(variable.ref(), number) != number:
                    raise KfrecError(f"{variable.name} is in two optimizer groups; leave it out of one of them")
        missing = [variable.name for variable in variables if variable.ref() not in owner]
        if missing:
            raise KfrecError(f"{', '.join(missing)}: in no optimizer group; add every trainable variable to one")
        self._owners = tuple(owner[variable.ref()] for variable in variables)
        for number, optimizer in enumerate(self.optimizers):
            optimizer.build([v for v, group in zip(variables, self._owners, strict=True) if group == number])

    @property
    def description(self) -> str:
        """The optimizers' names, compared when a checkpoint is restored."""
        return " and ".join(optimizer.name for optimizer in self.optimizers)

    @property
    def state(self) -> dict[str, tf.Variable]:
        """The optimizers' variables: slots by name, such as ``output/kernel/m``, others by group, such as ``0/steps``.

        Raises:
            KfrecError: two have the same name.
        """
        variables: dict[str, tf.Variable] = {}
        for number, optimizer in enumerate(self.optimizers):
            for name, variable in by_name(getattr(optimizer, "variables", ()), f"optimizer {optimizer.name}").items():
                variables[name if "/" in name else f"{number}/{name}"] = variable
        return variables

    @property
    def keeps_sparse(self) -> tuple[bool, ...]:
        """Per variable, whether its optimizer leaves rows without a gradient unchanged."""
        return tuple(self.optimizers[number].keeps_sparse for number in self._owners)

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]], scaling: Scaling = UNSCALED) -> None:
        """Applies one step.
        Args:
            gradients_and_variables: in the model's order.
        """
        pairs = list(gradients_and_variables)
        optimizer: Any  # not every optimizer takes the scaling
        for number, optimizer in enumerate(self.optimizers):
            own = [pair for pair, owner in zip(pairs, self._owners, strict=True) if owner == number]
            if getattr(optimizer, "takes_scaling", False):
                optimizer.apply(own, scaling)
                continue
            own = [(_at_true_size(gradient, scaling), variable) for gradient, variable in own]
            if scaling.allowed is None:
                optimizer.apply(own)
            else:
                tf.cond(scaling.allowed, partial(optimizer.apply, own), lambda: None)


def _at_true_size(gradient: Any, scaling: Scaling) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(scaling.true(gradient.values), gradient.indices, gradient.dense_shape)
    return scaling.true(gradient)
