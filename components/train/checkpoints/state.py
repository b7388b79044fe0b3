"""The state of a model or an optimizer: all variables, trainable or not."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from components.models.tables.placement import sharding_of


def paths_of(trackable: Any) -> dict[str, tf.Variable]:
    """The variables below an object by their checkpoint paths, such as ``dense/kernel``.

    The order is the same in every process. States of random generators are included.
    """
    found: dict[str, tf.Variable] = {}
    seen, waiting = {id(trackable)}, deque([("", trackable)])
    while waiting:
        path, parent = waiting.popleft()
        if isinstance(parent, tf.Variable):
            found[path] = parent
        for name, child in tf.train.TrackableView.children(parent).items():
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append((f"{path}/{_escaped(name)}" if path else _escaped(name), child))
    return found


def state_of(trackable: Any) -> list[tf.Variable]:
    """The variables below an object, in the same order in every process."""
    return list(paths_of(trackable).values())


def shared_state_of(trackable: Any) -> list[tf.Variable]:
    """The replicated variables: all of :func:`state_of` but table shards."""
    return [variable for variable in state_of(trackable) if sharding_of(variable) is None]


def tree_of(variables: Mapping[str, tf.Variable]) -> dict[str, Any]:
    """Nested dictionaries that give the variables these paths in a TensorFlow checkpoint."""
    tree: dict[str, Any] = {}
    for path, variable in variables.items():
        *folders, name = (_unescaped(part) for part in path.split("/"))
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = variable
    return tree


def key_of(path: str) -> str:
    """The key of a variable's value in a checkpoint."""
    return f"{path}/.ATTRIBUTES/VARIABLE_VALUE"


def _escaped(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")


def _unescaped(name: str) -> str:
    return name.replace(".S", "/").replace("..", ".")
