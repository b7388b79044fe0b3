"""Data sets, models and tasks by name, of kfrec and of other packages, discovered through entry points.

A package registers them under ``kfrec.models``, ``kfrec.datasets`` or ``kfrec.tasks``, as kfrec itself does in its
pyproject.toml:

    [project.entry-points."kfrec.models"]
    sim = "components.models.sim:MODEL"
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError

if TYPE_CHECKING:
    from components.datasets.definition import DatasetDefinition
    from components.models.definition import ModelDefinition
    from components.tasks.definition import TaskDefinition

DATASETS, MODELS, TASKS = "kfrec.datasets", "kfrec.models", "kfrec.tasks"
_KINDS = {DATASETS: "data set", MODELS: "model", TASKS: "task"}
_DEFINITIONS = {
    DATASETS: "components.datasets.definition:DatasetDefinition",
    MODELS: "components.models.definition:ModelDefinition",
    TASKS: "components.tasks.definition:TaskDefinition",
}
# The parameters that choose one of each.
_CHOSEN_BY = {"dataset": DATASETS, "model_type": MODELS, "task": TASKS}
_OWN_PACKAGES = (__name__.partition(".")[0], "pipelines")
_SHOWN_DIGITS = 12


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
    return {name: entries[0] for name, entries in _every_entry(group).items()}


@cache
def _every_entry(group: str) -> dict[str, list[EntryPoint]]:
    """The entry points of a group by name, without repeated ones."""
    entries: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        same = entries.setdefault(entry.name, [])
        if all(other.value != entry.value for other in same):
            same.append(entry)
    return entries


@cache
def _load(group: str, name: str) -> Any:
    known = _entries(group)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise KfrecError(f"no {_KINDS[group]} {name!r}: {hint}there are {', '.join(sorted(known)) or 'none'}")
    if len(twice := _every_entry(group).get(name, [])) > 1:
        packages = " and by ".join(map(_described, twice))
        raise KfrecError(f"the {_KINDS[group]} {name} is provided by {packages}; uninstall one of them")
    what = f"the {_KINDS[group]} {name} of {_described(known[name])}"
    try:
        definition = known[name].load()
    except Exception as error:
        from components.crash import describe_exception

        remedy = "install what it needs, or correct it" if isinstance(error, ImportError) else "correct it"
        raise KfrecError(f"{what} cannot be imported: {describe_exception(error)}; {remedy}") from error
    from components.definition_checks import require_valid

    try:
        require_valid(name, definition, _DEFINITIONS[group])
    except KfrecError as error:
        raise KfrecError(f"{what}: {error}") from None
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
        if entry is not None and not _is_own_entry(entry):
            packages[parameter] = _identity(entry)
    return packages


def is_own(file: str) -> bool:
    """Whether a source file belongs to kfrec."""
    return any(_is_below(file, root) for root in _roots(_OWN_PACKAGES))


def is_of_extension(file: str) -> bool:
    """Whether a source file belongs to a package that provides a data set, model or task to kfrec."""
    return any(_is_below(file, root) for entry in _of_extensions() for root in _roots(_packages_of(entry)))


def _of_extensions() -> Iterator[EntryPoint]:
    for group in _KINDS:
        for entry in _entries(group).values():
            if not _is_own_entry(entry):
                yield entry


def _is_own_entry(entry: EntryPoint) -> bool:
    return entry.module.partition(".")[0] in _OWN_PACKAGES


def _identity(entry: EntryPoint) -> str:
    """Distribution, version and digest of the files of an extension.

    The version alone does not identify the code: an editable install, or one repeated without a new version, changes.
    """
    distribution: Distribution | None = entry.dist
    known = f"{distribution.name} {distribution.version}" if distribution else entry.module.partition(".")[0]
    digest = hashlib.sha256()
    for root in _roots(_packages_of(entry)):
        for path in _files(root):
            digest.update(f"{path.relative_to(root.parent).as_posix()}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return f"{known} sha256:{digest.hexdigest()[:_SHOWN_DIGITS]}"


def _packages_of(entry: EntryPoint) -> tuple[str, ...]:
    """The top-level packages of the distribution of an entry point."""
    named = {entry.module.partition(".")[0]}
    if entry.dist is not None:
        listed = (entry.dist.read_text("top_level.txt") or "").split()
        provided = (each.module.partition(".")[0] for each in entry.dist.entry_points if each.group in _KINDS)
        named |= {*listed, *provided}
    return tuple(sorted(named))


def _roots(packages: tuple[str, ...]) -> Iterator[Path]:
    """The folders of packages, and the files of modules."""
    for name in packages:
        with suppress(ImportError, ValueError):
            spec = find_spec(name)
            if spec is not None and spec.submodule_search_locations is not None:
                yield from map(Path, spec.submodule_search_locations)
            elif spec is not None and spec.origin is not None:
                yield Path(spec.origin)


def _files(root: Path) -> Iterator[Path]:
    """The files of a package, sorted, without caches and hidden ones."""
    if root.is_file():
        yield root
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if path.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in parts):
            yield path


def _is_below(file: str, root: Path) -> bool:
    return root == Path(file) or root in Path(file).parents
