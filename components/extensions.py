"""The entry points of kfrec and of other packages, and the files of these packages."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions
from importlib.util import find_spec
from pathlib import Path

DATASETS, MODELS, TASKS = "kfrec.datasets", "kfrec.models", "kfrec.tasks"
GROUPS = (DATASETS, MODELS, TASKS)
_OWN_PACKAGES = (__name__.partition(".")[0], "pipelines")
_SHOWN_DIGITS = 12


@cache
def every_entry(group: str) -> dict[str, list[EntryPoint]]:
    """The entry points of a group by name, without repeated ones."""
    entries: dict[str, list[EntryPoint]] = {}
    for distribution in _providing(group):
        for entry in distribution.entry_points.select(group=group):
            same = entries.setdefault(entry.name, [])
            if all(other.value != entry.value for other in same):
                same.append(entry)
    return entries


def _providing(group: str) -> Iterator[Distribution]:
    """The distributions with entry points of a group; of several versions of one, the first on the path."""
    known = set()
    # A distribution reads its files when they are asked for. The working directory may be another one by then.
    for distribution in distributions(path=[str(Path(folder).absolute()) for folder in sys.path]):
        if distribution.entry_points.select(group=group) and distribution.name not in known:
            known.add(distribution.name)
            yield distribution


def is_own_entry(entry: EntryPoint) -> bool:
    """Whether kfrec itself registers it."""
    return entry.module.partition(".")[0] in _OWN_PACKAGES


def identity(entry: EntryPoint) -> str:
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


def is_own(file: str) -> bool:
    """Whether a source file belongs to kfrec."""
    return any(_is_below(file, root) for root in _roots(_OWN_PACKAGES))


def is_of_extension(file: str) -> bool:
    """Whether a source file belongs to a package that provides a data set, model or task to kfrec."""
    return any(_is_below(file, root) for entry in _of_extensions() for root in _roots(_packages_of(entry)))


def _of_extensions() -> Iterator[EntryPoint]:
    for group in GROUPS:
        for first, *_ in every_entry(group).values():
            if not is_own_entry(first):
                yield first


def _packages_of(entry: EntryPoint) -> tuple[str, ...]:
    """The top-level packages of the distribution of an entry point."""
    named = {entry.module.partition(".")[0]}
    if entry.dist is not None:
        listed = (entry.dist.read_text("top_level.txt") or "").split()
        provided = (each.module.partition(".")[0] for each in entry.dist.entry_points if each.group in GROUPS)
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
