"""The interface of a data set; see docs/adding-a-model.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from components.errors import KfrecError
from components.parameters import REPLAY_SHARE, param
from components.workflows.partitions import name_within

if TYPE_CHECKING:
    import pyarrow as pa

    from components.artifacts import Artifact
    from components.checks.profiler import Profiler
    from components.datasets.raw_rows import RawRows
    from components.feature_spec import FeatureSpec, ListLength

# In the metadata section ``encoding``: the parameters by which ``DatasetDefinition.histories`` reads newer raw files.
READING = "reading"
UserHistories: TypeAlias = "Iterator[tuple[pa.Array, pa.Array]]"
"""Batches of users' ids, string ``[n]``, and of their items, oldest first, list of string ``[n]``, or of their events;
see ``components.datasets.event_lists``."""


@dataclass(frozen=True)
class RawKind:
    """One kind of raw files.

    Attributes:
        name: name of the kind, and prefix of its file names.
        pattern: regular expression of a whole file name.
        example: file name, for messages.
        rows: name of its rows in the counts, such as "reviews".
        required: whether a version needs such a file.
        partitioned: whether such files are also read in folders named KEY=VALUE, as Hive and Spark write tables.
    """

    name: str
    pattern: str
    example: str
    rows: str
    required: bool = True
    partitioned: bool = False

    def matches(self, name: str) -> bool:
        """Whether a file of that name is of this kind."""
        return re.fullmatch(self.pattern, name) is not None

    def found(self, raw: Artifact) -> list[Path]:
        """The files of this kind in a raw artifact, sorted by path; none where there are none."""
        depths = {entry.path.count("/") for entry in raw.files} if self.partitioned else set()
        paths = [path for depth in sorted({0, *depths}) for path in raw.paths("*/" * depth + "*")]
        within = [path for path in paths if name_within(path) == path.relative_to(raw.path).as_posix()]
        return [path for path in within if self.matches(path.name)]

    def files(self, raw: Artifact) -> list[Path]:
        """The files of this kind in a raw artifact, sorted by name.

        Raises:
            KfrecError: there is none, or one exists both plain and compressed.
        """
        files = self.found(raw)
        if not files:
            raise KfrecError(f"{raw.path}: no {self.example} here; put the raw files there, as download does")
        for path in files:
            if path.with_name(f"{path.name}.gz") in files:
                raise KfrecError(f"{path}: also exists as {path.name}.gz; remove one of the two")
        return files


TABLES = RawKind(
    "tables",
    r"(?i)(?!(readme|license))[^._].*\.((csv|tsv|tab|txt|dat|data|test|parquet)(\.gz|\.zip)?|zip)",
    "*.csv, *.tsv, *.tab, *.txt, *.dat, *.data, *.test (plain, .gz or .zip), *.zip or *.parquet",
    "lines",
    partitioned=True,
)
"""Raw files that are tables, of any name."""


@dataclass(frozen=True)
class RawContract:
    """The files of a version of a data set: at least one of each required kind.

    Attributes:
        kinds: the rows of the first kind measure the amount of data.
        unlisted: names of the files to fetch from a source that cannot be listed; empty if the user must name them.
    """

    kinds: tuple[RawKind, ...]
    unlisted: tuple[str, ...] = ()

    def kind_of(self, name: str) -> RawKind | None:
        """The kind of a file, by its name without folders; None if it does not belong to the data set."""
        return next((kind for kind in self.kinds if kind.matches(name)), None)

    def lacking(self, names: Iterable[str]) -> RawKind | None:
        """The first required kind without a file, None if the version is complete."""
        there = {self.kind_of(name) for name in names}
        return next((kind for kind in self.kinds if kind.required and kind not in there), None)

    @property
    def partitioned(self) -> bool:
        """Whether files are also read in folders named KEY=VALUE."""
        return any(kind.partitioned for kind in self.kinds)

    @property
    def examples(self) -> str:
        return ", or ".join(kind.example for kind in self.kinds)


@dataclass(frozen=True)
class PreprocessJob:
    """The inputs and the folders of a data set's preprocessing.

    Attributes:
        parameters: preprocess parameters, with the data set's own.
        folder: artifact folder; files written here belong to it.
        output: where workers write parts of the artifact; moved to ``folder`` at the end.
        scratch: folder for temporary files that workers share.
        scheduler: address of a Dask scheduler, empty for this machine.
        profiler: takes the raw rows table by table; call its ``judge`` once all were read.
        generation: the download step's parameters if it generated the raw files; None if it fetched them. A generator
            that knows the truth behind its labels can tell from them the best possible metrics on the test split.
            Preprocessing records these as ``best`` in the metadata section ``encoding``, such as ``best: {auc: 0.82}``,
            and the evaluation shows them beside the model's.
        since: histories have only events from this moment on, in nanoseconds since 1970; None is all.
    """

    parameters: Any
    raw: Artifact
    folder: Path
    output: Path
    scratch: Path
    scheduler: str
    profiler: Profiler
    generation: Any | None = None
    since: int | None = None


class LabelledRows(NamedTuple):
    """How rows that a model has answered become raw files, once their labels are known.

    The tables have the columns that the model read, as they came, and those below.

    Attributes:
        label: column of the label, 0 or 1.
        time: column of the time of the answer.
        group: column of the request's id, where samples of one request are ranked against each other; empty is none.
        files: content of the files beside the tables, by name.
    """

    label: str
    time: str
    group: str = ""
    files: Mapping[str, str] = {}


@dataclass(frozen=True)
class DatasetDefinition:
    """A data set by name, registered under the entry points ``kfrec.datasets``.

    Attributes:
        name: value of the parameter ``dataset``.
        generation: frozen dataclass of the synthetic generator's parameters, part of the download step's.
        generate: writes synthetic raw files; takes the download step's parameters and a folder.
        sampling: frozen dataclass of the data set's preprocess parameters.
        preprocess: writes samples in parquet, ``feature_spec.yaml`` and related files, and returns counts by name,
            including ``train`` and ``test``.
        lengths: takes the preprocess parameters and returns the list length of each channel of lists. Before the first
            step starts, a model that needs another channel is refused, and so is one that rejects the lengths.
        task: the task that all its samples serve, which is proposed in place of one that they do not serve.
        lacks: takes the source of the raw files, empty if it is not known yet, and the preprocess parameters, and
            returns the channels that the samples certainly lack, as far as that is known before the first step. A task
            that needs one of them is refused then.
        raw_rows: takes a model's feature specification and the names of its input features, and returns its encoder of
            raw rows; None if models of the data set take encoded features only. Preprocessing records the data set's
            name as ``dataset`` in the metadata section ``encoding``.
        histories: yields all events of every user of raw files, in batches, each user once, in memory that does not
            grow with the number of users; None if the data set has no histories, or reads them from samples only.
            Preprocessing records the parameters that it needs as ``reading`` in the metadata section ``encoding``.
        first_schema: takes a raw file and the name of its label, which may be empty, and returns the first text of a
            schema that preprocessing needs; None if it needs none.
        labelled_rows: takes a model's feature specification and the columns that it reads, and returns how rows that it
            has answered become raw files; None if raw files are no rows.
        no_raw_rows: why there are no ``raw_rows``, in half a sentence.
        defaults: defaults of the steps' parameters, by pipeline name, that override those of the task and of the steps.
        local_defaults: the same for ``kfrec run``, from any source.
    """

    name: str
    summary: str
    raw: RawContract
    generation: type
    generate: Callable[[Any, Path], None]
    sampling: type
    preprocess: Callable[[PreprocessJob], Mapping[str, int]]
    lengths: Callable[[Any], Mapping[str, ListLength]] = lambda parameters: {}
    task: str = ""
    lacks: Callable[[str, Any], Collection[str]] = lambda source, parameters: ()
    raw_rows: Callable[[FeatureSpec, Collection[str]], RawRows] | None = None
    histories: Callable[[PreprocessJob], UserHistories] | None = None
    first_schema: Callable[[Path, str], str] | None = None
    labelled_rows: Callable[[FeatureSpec, Collection[str]], LabelledRows] | None = None
    no_raw_rows: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    local_defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def refits(self) -> bool:
        """Whether preprocessing can let everything train: its parameters have ``components.parameters.REFITTING``."""
        return any(each.name == "refitting" for each in fields(self.sampling))

    @property
    def grows(self) -> bool:
        """Whether a vocabulary can grow: the parameters have ``Growing``."""
        return any(each.name == "vocabulary_slack" for each in fields(self.sampling))


@dataclass(frozen=True)
class Growing:
    """How a vocabulary grows from one night to the next, see ``components.feature_spec.living``."""

    vocabulary_slack: float = param(
        0.0,
        "Rows for values that become frequent later, as a share of the fitted ones; 0 keeps a vocabulary as it was "
        "fitted",
        at_least=0,
        at_most=100,
    )
    evict_after: int = param(
        30, "A value that was not seen for longer loses its row of a vocabulary that grows", unit="days", at_least=1
    )
    evict_share: float = param(
        0.1, "Largest share of a table's rows that values lose in a night", at_least=0, at_most=1
    )
    replay_share: float = REPLAY_SHARE
