"""The state of a model or an optimizer: all variables, trainable or not."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.models.names import by_name
from components.models.tables.placement import sharding_of

# The attributes of a checkpoint and of an exported model that hold their variables.
VARIABLES, BY_NAME = "variables", "by_name"
_KEY = "/.ATTRIBUTES/VARIABLE_VALUE"


def state_of(trackable: Any) -> list[tf.Variable]:
    """The variables below an object, in the same order in every process; includes states of random generators."""
    variables: list[tf.Variable] = []
    seen, waiting = {id(trackable)}, deque([trackable])
    while waiting:
        parent = waiting.popleft()
        if isinstance(parent, tf.Variable):
            variables.append(parent)
        for child in tf.train.TrackableView.children(parent).values():
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)
    return variables


def named_state_of(trackable: Any) -> dict[str, tf.Variable]:
    """``state_of`` by name.

    Raises:
        KfrecError: two variables have the same name.
    """
    return by_name(state_of(trackable), f"model {type(trackable).__name__}")


def shared_state_of(trackable: Any) -> list[tf.Variable]:
    """The replicated variables: all of ``state_of`` but table shards."""
    return [variable for variable in state_of(trackable) if sharding_of(variable) is None]


def key_of(holder: str, name: str) -> str:
    """The key of a value in a TensorFlow checkpoint.

    Args:
        holder: attribute of the saved object, a dictionary of variables.
    """
    return f"{holder}/{name.replace('.', '..').replace('/', '.S')}{_KEY}"


def name_in(key: str, holder: str) -> str | None:
    """The inverse of ``key_of``; None for a key of something else."""
    if not key.startswith(f"{holder}/") or not key.endswith(_KEY):
        return None
    return key.removeprefix(f"{holder}/").removesuffix(_KEY).replace(".S", "/").replace("..", ".")


_KINDS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)


@contextmanager
def disk_errors(path: Path | str) -> Iterator[None]:
    """Raises OSError if TensorFlow fails to write because of an operating system error.

    Args:
        path: the file or folder being written, for the message.
    """
    try:
        yield
    except tf.errors.OpError as error:
        for kind in _KINDS:
            if os.strerror(kind) in error.message:
                raise OSError(kind, os.strerror(kind), str(path)) from error
        raise
