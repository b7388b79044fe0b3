"""The first pass: reads the tables once, in order, into partitions of typed columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.checks.profile import CATEGORY, NUMBER
from components.checks.profile import TIME as TIMES
from components.checks.profiler import Profiler
from components.checks.tables import Profiled, TableProfiler
from components.datasets.definition import PreprocessJob
from components.datasets.tabular.conversion import (
    hashes,
    ids,
    labels,
    lists,
    number,
)
from components.datasets.tabular.entries import ByTime, Categorical, Group, Multihot, Numeric
from components.datasets.tabular.raw_files import TableFile
from components.datasets.tabular.schema import TableSchema, feature_name
from components.datasets.tabular.splits import TIME, Splitter
from components.errors import KfrecError
from components.progress import progress, warn
from components.workflows.quarantine import Quarantine, Refusals, refuse_ids
from components.workflows.startup import start_fork_server_early
from components.workflows.tables import Batch, Stated, batches, is_empty, warn_of_empty
from components.workflows.times import Times
from components.workflows.values import IdCheck, is_deep, texts, written_lists

if TYPE_CHECKING:
    from components.datasets.tabular import PreprocessTable

# Columns of a partition beside the features and those of splits.
LABEL, GROUP = ".label", ".group"


@dataclass
class Rows:
    """The result of the first pass.

    Attributes:
        partitions: parquet files: LABEL, the split column, GROUP, and a column for each feature: float64 numbers (NaN
            where missing), text (null), hashed ids (0), and lists of the last two.
        unlabelled: rows dropped for want of a label.
    """

    partitions: list[Path] = field(default_factory=list)
    read: int = 0
    unlabelled: int = 0
    malformed: int = 0
    times: Times | None = None


def read_tables(tables: Sequence[TableFile], schema: TableSchema, place: str, job: PreprocessJob) -> Rows:
    """Writes partitions to the job's scratch folder.

    Args:
        place: location of the schema, for messages.

    Raises:
        KfrecError: a table is damaged or does not fit the schema, or a group lies in two files.
    """
    parameters: PreprocessTable = job.parameters
    reader = _Reader(schema, place, parameters.seed)
    stated = Stated(
        place,
        f"or state quoting: none or backslash, or longest_record ({schema.longest_record}), in {place}",
        f"list the columns under names in {place}",
    )
    result, shown = Rows(), _shown(schema)
    profiler = _profiler(schema, job.profiler, shown)
    quarantine = job.folder / "quarantine"
    size = sum(table.path.stat().st_size for table in tables)
    empty: list[TableFile] = []
    with progress("reading tables", size, "bytes") as bar, _Partitions(job, result) as partitions:
        for table in tables:
            if is_empty(table.path):
                empty.append(table)
                continue
            refused = Quarantine(table.path, quarantine, parameters.malformed_limit, "rows of the schema")
            first = result.read
            with closing(refused):
                for batch in batches(table.path, schema.layout, stated, parameters.longest_line):
                    rows, refusals, dropped = reader.convert(batch, table, result.read)
                    refused.add(sorted([*batch.bad, *refusals.lines], key=lambda line: line.number))
                    result.read += len(batch.rows) + len(batch.bad)
                    result.unlabelled += int(np.sum(dropped & ~refusals.refused))
                    good = rows.filter(pa.array(~(dropped | refusals.refused)))
                    names = [shown.get(name, name) for name in good.schema.names]
                    profiler.add(pa.Table.from_batches([good]).rename_columns(names))
                    profiler.malformed += len(batch.bad) + len(refusals.lines)
                    partitions.add(good)
                    bar.advance(batch.consumed)
            if result.read == first:
                empty.append(table)
                continue
            refused.judge(result.read - first)
            result.malformed += refused.count
            reader.finish_table(table)
    _require_rows(empty, tables)
    reader.finish()
    result.times = reader.splitter.times
    return result


def _require_rows(empty: Sequence[TableFile], tables: Sequence[TableFile]) -> None:
    """Requires rows in a table of each split, and warns of tables without any.

    Raises:
        KfrecError: no table of a split has rows.
    """
    splits = {table.split for table in tables if table not in empty}
    for table in empty:
        if table.split not in splits:
            raise KfrecError(f"{table.path}: no rows in it; remove it, or check what download fetched")
    warn_of_empty([table.path for table in empty], len(tables))


def _shown(schema: TableSchema) -> dict[str, str]:
    """Partition column to its name in the profile, where they differ."""
    shown = {LABEL: feature_name(schema.label.column), TIME: "time of the split"}
    return shown | ({GROUP: schema.group.name} if schema.group else {})


def _profiler(schema: TableSchema, profiler: Profiler, shown: Mapping[str, str]) -> TableProfiler:
    """The profiler of the label, all features, and the time of a split by time."""
    columns = [Profiled(shown[LABEL], NUMBER if schema.label.number else CATEGORY)]
    for source in schema.sources:
        if isinstance(source.treatment, Numeric):
            columns.append(Profiled(source.name, NUMBER))
        elif not isinstance(source.treatment, Group):
            columns.append(Profiled(source.name, CATEGORY, counted=isinstance(source.treatment, Categorical)))
    if schema.group:
        columns.append(Profiled(shown[GROUP], CATEGORY, counted=True))
    if isinstance(schema.split, ByTime):
        columns.append(Profiled(shown[TIME], TIMES))
    lists = {source.name for source in schema.sources if isinstance(source.treatment, Multihot)}
    key = [column.name for column in columns if column.name not in lists]
    return profiler.table("rows", columns, key, are_apart=isinstance(schema.split, ByTime))


class _Reader:
    """Converts batches, and keeps the state of checks over all of them."""

    def __init__(self, schema: TableSchema, place: str, seed: int) -> None:
        self._schema, self._place = schema, place
        self.splitter = Splitter(schema, place, seed)
        self._checks = {source.column: IdCheck() for source in schema.sources}
        self._never_separated = {
            source.column: source.treatment.separator
            for source in schema.sources
            if isinstance(source.treatment, Multihot)
        }
        self._written: dict[str, str] = {}
        self._groups: list[np.ndarray] = []
        self._earlier: list[tuple[TableFile, np.ndarray]] = []

    def convert(self, batch: Batch, table: TableFile, first_row: int) -> tuple[pa.RecordBatch, Refusals, np.ndarray]:
        """The partition columns, the refusals, and the mask of dropped unlabelled rows."""
        schema, rows = self._schema, batch.rows
        refusals = Refusals(rows, batch.lines)
        self._require_single(rows, table)
        label, dropped = labels(
            rows.column(schema.label.column), schema.label, schema.missing, schema.decimal, refusals
        )
        columns = {LABEL: label}
        keys = np.arange(first_row, first_row + len(rows))
        if schema.group:
            text = texts(rows.column(schema.group.column), schema.missing)
            self._checks[schema.group.column].add(text)
            refusals.add(text.is_null().to_numpy(zero_copy_only=False), schema.group.column, "no group")
            refuse_ids(rows.column(schema.group.column), schema.group.column, refusals)
            columns[GROUP], keys = text, hashes(text).view(np.int64)
            self._groups.append(np.unique(keys[~refusals.refused & ~dropped]))
        name, column = self.splitter.mark(rows, table.split, keys, refusals)
        columns[name] = column
        for source in schema.sources:
            column = rows.column(source.column)
            if pa.types.is_nested(column.type) and isinstance(source.treatment, Multihot):
                self._never_separated.pop(source.column, None)
            if is_deep(column.type):
                raise KfrecError(
                    f"{table.path}: column {source.column} is of the type {column.type}, which holds several values a "
                    f"row; flatten it into columns of their own, or list it under drop in {self._place}"
                )
            if pa.types.is_nested(column.type) and not isinstance(source.treatment, Multihot):
                raise KfrecError(
                    f"{table.path}: column {source.column} is of the type {column.type}, and {self._place} gives it "
                    f"the role {source.treatment.role}; give a list the role multihot"
                )
            if isinstance(source.treatment, Numeric):
                columns[source.name] = number(column, source.column, schema.missing, schema.decimal, refusals)
            elif isinstance(source.treatment, Categorical | Multihot):
                convert = ids if isinstance(source.treatment, Categorical) else lists
                text, columns[source.name] = convert(column, source.treatment, schema.missing)  # type: ignore[arg-type]
                refuse_ids(column, source.column, refusals)
                if isinstance(source.treatment, Categorical):
                    if (written := written_lists(text, several=True)).any():
                        self._written.setdefault(source.column, text[int(np.argmax(written))].as_py())
                elif not pa.types.is_nested(column.type):
                    whole, separator = texts(column, schema.missing), source.treatment.separator
                    what = f"a list as programs write it; write the values with {separator} between them"
                    refusals.add(written_lists(whole), source.column, f"{what}, or a list in parquet")
                    if pc.any(pc.match_substring(whole, separator)).as_py():
                        self._never_separated.pop(source.column, None)
                self._checks[source.column].add(text)
        return pa.RecordBatch.from_pydict(columns), refusals, dropped

    def _require_single(self, rows: pa.RecordBatch, table: TableFile) -> None:
        """Refuses a label, a split or a group of several values a row."""
        split, group = getattr(self._schema.split, "column", ""), self._schema.group
        for name, role in ((self._schema.label.column, "label"), (split, "split"), (group and group.column, "group")):
            if name and pa.types.is_nested(kind := rows.column(name).type):
                raise KfrecError(
                    f"{table.path}: column {name} is of the type {kind}, not one value a row; the {role} "
                    f"of {self._place} needs one"
                )

    def finish_table(self, table: TableFile) -> None:
        """Compares the groups of a table with those of earlier ones; 8 bytes of memory a group.

        Raises:
            KfrecError: a group lies in both.
        """
        group, found = self._schema.group, np.unique(np.concatenate([np.zeros(0, np.int64), *self._groups]))
        self._groups.clear()
        if group is None or (isinstance(group.treatment, Group) and group.treatment.across_files):
            return
        for earlier, others in self._earlier:
            if len(shared := np.intersect1d(found, others, assume_unique=True)):
                raise KfrecError(
                    f"{table.path}: {len(shared)} groups of column {group.column} are also in {earlier.path.name}; "
                    "put each group into one file, or allow it with across_files: true"
                )
        self._earlier.append((table, found))

    def finish(self) -> None:
        """Runs the checks over all tables.

        Raises:
            KfrecError: a column of ids holds numbers with a fraction, or a value of the test split never occurred.
        """
        for source in self._schema.sources:
            if fraction := self._checks[source.column].fraction:
                raise KfrecError(
                    f"{self._place}: columns: {source.column} has the role {source.treatment.role}, but holds numbers "
                    f"such as {fraction}; give it the role numeric, with bins where it should be categorical, or store "
                    "ids as whole numbers or as text"
                )
        for column, value in self._written.items():
            warn(
                "preprocess",
                f"lists in {column}",
                f"{self._place}: columns: {column} has lists as programs write them, such as {value}, each of which is "
                "one category; for their values give the column the role multihot",
            )
        for column, separator in self._never_separated.items():
            warn(
                "preprocess",
                f"separator of {column}",
                f"{self._place}: columns: {column}: the separator {separator!r} is in no row, so each row has one "
                "value or none; correct separator if they are lists",
            )
        self.splitter.require_seen()


class _Partitions:
    """Writes rows to files of equal size."""

    def __init__(self, job: PreprocessJob, rows: Rows) -> None:
        self._job, self._rows, self._size = job, rows, job.parameters.rows_per_partition
        self._writer: pq.ParquetWriter | None = None
        self._room = 0

    def __enter__(self) -> _Partitions:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def add(self, rows: pa.RecordBatch) -> None:
        for part in self._cut(rows):
            if self._writer is None:
                path = self._job.scratch / f"rows-{len(self._rows.partitions)}.parquet"
                self._rows.partitions.append(path)
                if len(self._rows.partitions) == 2:
                    start_fork_server_early(self._job.parameters.workers, self._job.scheduler)
                self._writer = pq.ParquetWriter(path, part.schema, compression="lz4")
                self._room = self._size
            self._writer.write_batch(part)
            self._room -= len(part)
            if not self._room:
                self._close()

    def _cut(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        while len(rows):
            room = self._room if self._writer else self._size
            yield rows.slice(0, room)
            rows = rows.slice(room)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
