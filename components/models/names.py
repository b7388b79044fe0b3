"""Names of variables, by which weights and their state are saved, exported and carried over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from components.errors import KfrecError

if TYPE_CHECKING:
    import tensorflow as tf


def name_of(variable: tf.Variable) -> str:
    """The name of a variable, such as ``classifier/output/kernel``."""
    name: str = variable.name
    return name.removesuffix(":0")


def by_name(variables: Iterable[tf.Variable], owner: str) -> dict[str, tf.Variable]:
    """Variables by name, in their order.

    Args:
        variables: of a model or of another object.
        owner: the object, for the message.

    Raises:
        KfrecError: two have the same name.
    """
    named: dict[str, tf.Variable] = {}
    for variable in variables:
        name = name_of(variable)
        if named.setdefault(name, variable) is not variable:
            raise KfrecError(
                f"{owner}: two variables are called {name}, and weights are saved by name; create them with different "
                "names, such as those of Weights(seed).scope(...)"
            )
    return named
