"""Data sets, models and tasks by name, of kfrec and of other packages, discovered through entry points.

A package registers them under ``kfrec.models``, ``kfrec.datasets`` or ``kfrec.tasks``, as kfrec itself does in its
pyproject.toml:

    [project.entry-points."kfrec.models"]
    sim = "components.models.sim:MODEL"
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

from components.crash import describe_exception
from components.errors import KfrecError
from components.extensions import DATASETS, MODELS, TASKS, every_entry, identity, is_own_entry

if TYPE_CHECKING:
    from components.datasets.definition import DatasetDefinition
    from components.models.definition import ModelDefinition
    from components.tasks.definition import TaskDefinition

_KINDS = {DATASETS: "data set", MODELS: "model", TASKS: "task"}
_DEFINITIONS = {
    DATASETS: "components.datasets.definition:DatasetDefinition",
    MODELS: "components.models.definition:ModelDefinition",
    TASKS: "components.tasks.definition:TaskDefinition",
}
# The parameters that choose one of each.
_CHOSEN_BY = {"dataset": DATASETS, "model_type": MODELS, "task": TASKS}


def model(name: str) -> ModelDefinition:
    """The model of that name.

    Raises:
        KfrecError: no package or two packages register it, its package cannot be imported, or its definition is wrong.
    """
    return _load(MODELS, name)


def dataset(name: str) -> DatasetDefinition:
    """The data set of that name.

    Raises:
        KfrecError: no package or two packages register it, its package cannot be imported, or its definition is wrong.
    """
    return _load(DATASETS, name)


def task(name: str) -> TaskDefinition:
    """The task of that name.

    Raises:
        KfrecError: no package or two packages register it, its package cannot be imported, or its definition is wrong.
    """
    return _load(TASKS, name)


def names(group: str) -> list[str]:
    """What is registered under an entry point group, sorted."""
    return sorted(_entries(group))


@cache
def _entries(group: str) -> dict[str, EntryPoint]:
    return {name: entries[0] for name, entries in every_entry(group).items()}


@cache
def _load(group: str, name: str) -> Any:
    known = _entries(group)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise KfrecError(f"no {_KINDS[group]} {name!r}: {hint}there are {', '.join(sorted(known)) or 'none'}")
    if len(twice := every_entry(group).get(name, [])) > 1:
        packages = " and by ".join(map(_described, twice))
        raise KfrecError(f"the {_KINDS[group]} {name} is provided by {packages}; uninstall one of them")
    what = f"the {_KINDS[group]} {name} of {_described(known[name])}"
    try:
        definition = known[name].load()
    except Exception as error:
        remedy = "install what it needs, or correct it" if isinstance(error, ImportError) else "correct it"
        raise KfrecError(f"{what} cannot be imported: {describe_exception(error)}; {remedy}") from error
    module, _, kind = _DEFINITIONS[group].partition(":")
    if not isinstance(definition, getattr(import_module(module), kind)):
        raise KfrecError(f"{what}: it is a {type(definition).__name__}, not a {kind}; name a {kind} in the entry point")
    if definition.name != name:
        raise KfrecError(
            f"{what}: {kind}.name is {definition.name!r}, and its entry point {name!r}; give both one name"
        )
    return definition


def _described(entry: EntryPoint) -> str:
    """The package of an entry point, and what the entry point names."""
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module.partition(".")[0]
    return f"{package} ({entry.value})"


def extensions(choices: Mapping[str, Any]) -> dict[str, str]:
    """The packages beside kfrec that provide a data set, model or task, and their code.

    Args:
        choices: names by parameter: ``dataset``, ``model_type`` and ``task``, of which an empty one is the model's own;
            other names are ignored.

    Returns:
        Parameter to distribution, version and digest of its files, such as ``{"model_type": "trips 0.1.0
        sha256:0f343b093112"}``; nothing for what kfrec itself provides.

    Raises:
        KfrecError: nothing has that name.
    """
    names = {parameter: str(choices[parameter]) for parameter in _CHOSEN_BY if parameter in choices}
    if not names.get("task", "chosen") and names.get("model_type"):
        names["task"] = model(names["model_type"]).task
    packages = {}
    for parameter, name in names.items():
        entry = _entries(_CHOSEN_BY[parameter]).get(name)
        if entry is not None and not is_own_entry(entry):
            packages[parameter] = identity(entry)
    return packages
