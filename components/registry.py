"""Data sets, models and tasks by name, of kfrec and of other packages, discovered through entry points.

A package registers them under ``kfrec.models``, ``kfrec.datasets`` or ``kfrec.tasks``, as kfrec itself does in its
pyproject.toml:

    [project.entry-points."kfrec.models"]
    sim = "components.models.sim:MODEL"
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError

if TYPE_CHECKING:
    from components.datasets.definition import DatasetDefinition
    from components.models.definition import ModelDefinition
    from components.tasks.definition import TaskDefinition

DATASETS, MODELS, TASKS = "kfrec.datasets", "kfrec.models", "kfrec.tasks"
_KINDS = {DATASETS: "data set", MODELS: "model", TASKS: "task"}


def model(name: str) -> ModelDefinition:
    """The model of that name.

    Raises:
        KfrecError: no package registers it, or its package cannot be imported.
    """
    return _load(MODELS, name)


def dataset(name: str) -> DatasetDefinition:
    """The data set of that name.

    Raises:
        KfrecError: no package registers it, or its package cannot be imported.
    """
    return _load(DATASETS, name)


def task(name: str) -> TaskDefinition:
    """The task of that name.

    Raises:
        KfrecError: no package registers it, or its package cannot be imported.
    """
    return _load(TASKS, name)


def names(group: str) -> list[str]:
    """What is registered under an entry point group, sorted."""
    return sorted(_entries(group))


@cache
def _entries(group: str) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        earlier = found.setdefault(entry.name, entry)
        if earlier.value != entry.value:
            raise KfrecError(
                f"the {_KINDS[group]} {entry.name} is provided by two packages, as {earlier.value} and as "
                f"{entry.value}; uninstall one of them"
            )
    return found


@cache
def _load(group: str, name: str) -> Any:
    known = _entries(group)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise KfrecError(f"no {_KINDS[group]} {name!r}: {hint}there are {', '.join(sorted(known)) or 'none'}")
    try:
        return known[name].load()
    except (ImportError, AttributeError) as error:
        raise KfrecError(
            f"the {_KINDS[group]} {name} ({known[name].value}) cannot be imported: {error}; install its package again"
        ) from error
