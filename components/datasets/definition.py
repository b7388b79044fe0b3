"""What a package brings that brings a data set; see docs/adding-a-model.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.artifacts import Artifact


@dataclass(frozen=True)
class RawKind:
    """One kind of raw files.

    Attributes:
        name: of the kind, with which the names of its files begin.
        pattern: regular expression of a file's whole name.
        told: what such names look like, for messages.
        rows: what its lines are, such as "reviews"; the name under which they are counted.
    """

    name: str
    pattern: str
    told: str
    rows: str

    def matches(self, name: str) -> bool:
        """Whether a file of that name is of this kind."""
        return re.fullmatch(self.pattern, name) is not None


@dataclass(frozen=True)
class RawContract:
    """Which files make up a version of a data set: at least one of each kind.

    Attributes:
        kinds: the first is the one whose rows say how much data there is.
        unlisted: names of the files to fetch from a source that cannot be listed; empty where they have to be given.
    """

    kinds: tuple[RawKind, ...]
    unlisted: tuple[str, ...] = ()

    def kind_of(self, name: str) -> RawKind | None:
        """The kind of a file, by its name without folders; None where it is none of the data set's."""
        return next((kind for kind in self.kinds if kind.matches(name)), None)

    def lacking(self, names: Iterable[str]) -> RawKind | None:
        """The first kind of which there is no file, None where the version is complete."""
        there = {self.kind_of(name) for name in names}
        return next((kind for kind in self.kinds if kind not in there), None)

    @property
    def told(self) -> str:
        """What the names of the files look like."""
        return ", or ".join(kind.told for kind in self.kinds)


@dataclass(frozen=True)
class PreprocessJob:
    """What a data set makes samples from, and where.

    Attributes:
        parameters: of the preprocess step, with the data set's own.
        raw: the raw files.
        folder: of the artifact; what is written here is part of it.
        output: where workers write parts of the artifact; what is here goes to ``folder`` in the end.
        scratch: for temporary files that workers share.
        scheduler: address of a Dask scheduler, empty for this machine.
    """

    parameters: Any
    raw: Artifact
    folder: Path
    output: Path
    scratch: Path
    scheduler: str


@dataclass(frozen=True)
class DatasetDefinition:
    """A data set by name, registered under the entry points ``kfrec.datasets``.

    Attributes:
        name: what ``dataset`` calls it.
        summary: one sentence.
        raw: its raw files.
        generation: frozen dataclass of the parameters of its synthetic generator, which the download step has.
        generate: writes synthetic raw files; takes the download step's parameters and a folder.
        sampling: frozen dataclass of the parameters that the preprocess step has for it.
        preprocess: writes samples in parquet, ``metadata.json`` and what else belongs to them, and returns counts by
            name, among them ``train`` and ``test``.
    """

    name: str
    summary: str
    raw: RawContract
    generation: type
    generate: Callable[[Any, Path], None]
    sampling: type
    preprocess: Callable[[PreprocessJob], Mapping[str, int]]
