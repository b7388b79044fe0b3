"""From tables to events: the user, the item and the time of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.checks.profile import CATEGORY, TIME
from components.checks.tables import Profiled, TableProfiler
from components.datasets.definition import TABLES, PreprocessJob, UserHistories
from components.datasets.events import CATEGORY as CATEGORY_COLUMN
from components.datasets.events import KIND as KIND_COLUMN
from components.datasets.events import TITLE as TITLE_COLUMN
from components.datasets.events.odd_files import OddFiles, with_content
from components.datasets.histories.event_ids import read as read_values
from components.datasets.histories.kinds import MOST_KINDS, NO_KIND, Kinds
from components.datasets.histories.preprocess import Read, histories_from, samples_from
from components.datasets.histories.sorting import (
    ITEM,
    NO_CATEGORY,
    REVIEW,
    SECOND,
    TICK,
    event_schema,
    in_nanoseconds,
    told_column,
)
from components.errors import KfrecError
from components.feature_spec.catalogue import shown_title
from components.feature_spec.event_columns import EventColumn
from components.progress import progress
from components.workflows.key_runs import KeyRuns
from components.workflows.quarantine import Quarantine, Refusals, refuse_ids
from components.workflows.tables import (
    LONG_DELIMITER,
    WITHOUT_LONG_DELIMITER,
    Batch,
    Layout,
    Stated,
    batches,
    columns_of,
)
from components.workflows.times import Times
from components.workflows.values import DEFAULT_MISSING, IdCheck, numbers, texts, written_lists


def preprocess(job: PreprocessJob) -> Mapping[str, int]:
    """Writes the samples of all splits, as ``components.datasets.histories.preprocess``."""
    return samples_from(job, _read)


def histories(job: PreprocessJob) -> UserHistories:
    return histories_from(job, _read)


def _read(job: PreprocessJob, runs: KeyRuns) -> Read:
    parameters: Any = job.parameters
    files = TABLES.files(job.raw)
    tables, odd = with_content(files), OddFiles(files)
    reader = _Reader(parameters, tables)
    columns = [Profiled("user", CATEGORY, counted=True), Profiled("item", CATEGORY, counted=True)]
    columns.append(Profiled("timestamp", TIME, unit=TICK))
    profiler = job.profiler.table("events", columns, [column.name for column in columns])
    malformed = 0
    with progress("reading tables", sum(table.stat().st_size for table in tables), "bytes") as bar:
        for table in tables:
            refused = Quarantine(table, job.folder / "quarantine", parameters.malformed_limit, "events")
            with closing(refused):
                for events in reader.read(table, refused, profiler, bar.advance):
                    runs.add(events)
                    odd.add(table, events)
            refused.judge(reader.rows_of_table)
            malformed += refused.count
    reader.require_ids()
    if not runs.rows:
        raise KfrecError(f"{tables[0]}: no events in it; check what download fetched")
    odd.warn()
    return Read(
        "events", "tables", runs, [reader.items()], tables[0], tables[0], lambda: malformed, reader.chosen_kinds()
    )


# Parameters that name kinds.
_OF_KINDS = ("target_kinds", "context_kinds", "kind_weights")


class _Reader:
    """Reads tables into events."""

    def __init__(self, parameters: Any, tables: Sequence[Path]) -> None:
        self._parameters = parameters
        places = "user_column, item_column, time_column, category_column, title_column, kind_column, weight_column"
        self._columns = parameters.event_columns
        self._stated = Stated(
            f"parameter {places}, event_categories, event_numbers or item_columns",
            "or write the file without quotes",
            "name the columns with the parameter header",
        )
        delimiter = "\t" if parameters.delimiter == "tab" else parameters.delimiter
        if len(delimiter) != 1:
            remedy = "give one, or the word tab"
            if delimiter == LONG_DELIMITER:
                remedy = WITHOUT_LONG_DELIMITER
            raise KfrecError(f"parameter delimiter={parameters.delimiter!r} is no character; {remedy}")
        names = tuple(name.strip() for name in parameters.header.split(",") if name.strip())
        read = [parameters.user_column, parameters.item_column, parameters.time_column]
        if twice := next((name for name in read if read.count(name) > 1), ""):
            raise KfrecError(
                f"parameter user_column, item_column or time_column: two of them are {twice!r}; correct one"
            )
        plain = Layout(delimiter, names, tuple(read))

        def is_read(column: str, default: str) -> bool:
            """Whether to read a column: one of another name than the default, or the default where a table has it."""
            return bool(column) and (
                column != default or any(default in columns_of(table, plain, self._stated) for table in tables)
            )

        self._has_category = is_read(parameters.category_column, CATEGORY_COLUMN)
        self._has_title = is_read(parameters.title_column, TITLE_COLUMN)
        self._has_kind = is_read(parameters.kind_column, KIND_COLUMN)
        if self._has_category:
            read.append(parameters.category_column)
        if self._has_title:
            read.append(parameters.title_column)
        if self._has_kind:
            read.append(parameters.kind_column)
        elif named := next((name for name in _OF_KINDS if getattr(parameters, name)), ""):
            raise KfrecError(
                f"parameter {named}: {tables[0]} has no column {KIND_COLUMN!r}; name the "
                "column of the kinds with kind_column"
            )
        if parameters.weight_column:
            read.append(parameters.weight_column)
        read += [*(column.name for column in self._columns), *parameters.of_items]
        self._kinds: dict[str, int] = {}
        self._categories: dict[str, str] = {}
        self._titles: dict[str, str] = {}
        # Of the columns of items that models read, and the items that they tell of.
        self._told: list[pa.Table] = []
        self._told_of: set[str] = set()
        self._layout = Layout(delimiter, names, tuple(dict.fromkeys(read)))
        self._times = Times(
            parameters.time_column, parameters.time_format, "parameter time_column", "such as time_format=%d/%m/%Y"
        )
        self._per_second = 0.0
        self._ids = {"user": IdCheck(), "item": IdCheck()}
        self.rows_of_table = 0

    def read(
        self, table: Path, refused: Quarantine, profiler: TableProfiler, advance: Callable[[int], None]
    ) -> Iterator[pa.Table]:
        """Yields events of ``event_schema``.

        Args:
            advance: called with each number of bytes that were read.

        Raises:
            KfrecError: the table is damaged, lacks a column, or has times of two kinds.
        """
        self.rows_of_table = 0
        for batch in batches(table, self._layout, self._stated, self._parameters.longest_line):
            refusals = Refusals(batch.rows, batch.lines)
            events = self._events(batch, refusals)
            refused.add(sorted([*batch.bad, *refusals.lines], key=lambda line: line.number))
            self.rows_of_table += len(batch.rows) + len(batch.bad)
            profiler.add(events.select(REVIEW.names).rename_columns(["user", "item", "timestamp"]))
            profiler.malformed += len(batch.bad) + len(refusals.lines)
            yield events
            advance(batch.consumed)

    def _events(self, batch: Batch, refusals: Refusals) -> pa.Table:
        own = self._parameters
        names = {}
        for role, name in (("user", own.user_column), ("item", own.item_column)):
            column = self._single(batch, role, name)
            names[role] = texts(column, DEFAULT_MISSING)
            refusals.add(names[role].is_null().to_numpy(zero_copy_only=False), name, f"no {role}")
            refusals.add(written_lists(names[role]), name, "a list as programs write it; give each id a row")
            refuse_ids(column, name, refusals)
            self._ids[role].add(names[role])
        if self._has_category:
            refuse_ids(self._single(batch, "category", own.category_column), own.category_column, refusals)
        if self._has_kind:
            refuse_ids(self._single(batch, "kind", own.kind_column), own.kind_column, refusals)
        values, wrong = self._times.read(batch.rows.column(own.time_column), DEFAULT_MISSING)
        refusals.add(wrong, own.time_column, f"not {self._times.what}")
        refusals.add(np.isnan(values), own.time_column, "no time")
        weights = self._weights(batch, refusals)
        further = [self._values(column, batch, refusals) for column in self._columns]
        kept = pa.array(~refusals.refused)
        times = self._nanoseconds(batch.rows.column(own.time_column).filter(kept), values[~refusals.refused])
        kinds = self._codes(batch, kept)
        weights = weights[~refusals.refused] * self._weight_of_kinds()[kinds.to_numpy()]
        columns = [
            *(names["user"].filter(kept), names["item"].filter(kept), pa.array(times)),
            *(kinds, pa.array(weights.astype(np.float32))),
            *(values.filter(kept) for values in further),
        ]
        items = columns[1]
        if self._has_category:
            self._note(self._categories, items, batch.rows.column(own.category_column).filter(kept))
        else:
            self._categories.update(dict.fromkeys(pc.unique(items).to_pylist(), NO_CATEGORY))
        if self._has_title:
            self._note(self._titles, items, self._single(batch, "title", own.title_column).filter(kept))
        if own.of_items:
            self._note_columns(batch, items, kept)
        return pa.table(columns, schema=event_schema(self._columns))

    def _nanoseconds(self, column: pa.Array, values: np.ndarray) -> np.ndarray:
        """Times as integers: float64 is exact for microseconds since 1970, but not for nanoseconds."""
        per_second, name = int(self._unit()), self._parameters.time_column
        if per_second == SECOND:
            with suppress(pa.ArrowInvalid):  # numbers such as 1.7E+18
                return in_nanoseconds(column.cast(pa.int64()).to_numpy(), per_second, name)
        micro = np.round(np.clip(values * (1e6 / per_second), -9e18, 9e18)).astype(np.int64)
        return in_nanoseconds(micro, 10**6, name)

    def _codes(self, batch: Batch, kept: pa.Array) -> pa.Array:
        """The code of each event's kind, NO_KIND without one."""
        if not self._has_kind:
            return pa.array(np.full(kept.true_count, NO_KIND, np.int8))
        name = self._parameters.kind_column
        kinds = texts(batch.rows.column(name), DEFAULT_MISSING).filter(kept).dictionary_encode()
        codes = [self._kinds.setdefault(kind, len(self._kinds) + 1) for kind in kinds.dictionary.to_pylist()]
        if len(self._kinds) > MOST_KINDS:
            raise KfrecError(
                f"parameter kind_column={name!r}: the column has more than {MOST_KINDS} kinds of events; name another "
                "column, or none with kind_column="
            )
        return pa.array(codes, pa.int8()).take(kinds.indices).fill_null(NO_KIND)

    def _values(self, column: EventColumn, batch: Batch, refusals: Refusals) -> pa.Array:
        values, wrong = read_values(column, batch.rows.column(column.name))
        refusals.add(wrong, column.name, "no number")
        return values

    def _weights(self, batch: Batch, refusals: Refusals) -> np.ndarray:
        """The weight of each row, 1 without a column of them."""
        name = self._parameters.weight_column
        if not name:
            return np.ones(len(batch.rows))
        values, _ = numbers(self._single(batch, "weight", name), DEFAULT_MISSING)
        refusals.add(~(values >= 0), name, "no weight of at least 0")
        return values

    def _weight_of_kinds(self) -> np.ndarray:
        """The weight of each code."""
        weights = np.ones(MOST_KINDS + 1)
        for kind, weight in self._parameters.weights_by_kind.items():
            weights[self._kinds.get(kind, NO_KIND)] = weight
        weights[NO_KIND] = 1
        return weights

    def chosen_kinds(self) -> Kinds:
        """Which kinds are used, once all tables were read.

        Raises:
            KfrecError: a parameter names a kind that no table has.
        """

        own = self._parameters
        given = {**own.chosen_kinds, "kind_weights": own.weights_by_kind}
        for parameter, names in given.items():
            if unknown := next((name for name in names if name not in self._kinds), ""):
                raise KfrecError(
                    f"parameter {parameter}: no event is of the kind {unknown!r}; column {own.kind_column} has "
                    f"{', '.join(self._kinds) or 'none'}"
                )
        targets, context = (
            frozenset(self._kinds[name] for name in given[parameter]) if parameter in given else None
            for parameter in ("target_kinds", "context_kinds")
        )
        return Kinds(targets, context, tuple(self._kinds))

    def _single(self, batch: Batch, role: str, name: str) -> pa.Array:
        """A column of one value a row."""
        column = batch.rows.column(name)
        if pa.types.is_nested(column.type):
            raise KfrecError(f"parameter {role}_column={name!r}: the column is of the type {column.type}, not one id")
        return column

    def require_ids(self) -> None:
        """Checks, once all tables were read, that users and items are no numbers with a fraction."""
        for role, check in self._ids.items():
            if check.fraction:
                raise KfrecError(
                    f"parameter {role}_column: the column holds numbers such as {check.fraction}, which are no ids; "
                    "store ids as whole numbers or as text"
                )

    def _unit(self) -> float:
        """What a second has of the column's unit; the same for all rows.

        Raises:
            KfrecError: the first rows tell no unit, or another one.
        """
        if self._times.are_days:
            raise KfrecError(
                f"parameter time_column: column {self._parameters.time_column} holds dates as YYYYMMDD; state "
                "time_format=%Y%m%d"
            )
        found = self._times.per_second
        if self._per_second not in (0.0, found):
            raise KfrecError(
                f"parameter time_column: column {self._parameters.time_column} holds times in two units since 1970, or "
                "numbers that are none; give one unit"
            )
        self._per_second = found
        return found

    def _note(self, noted: dict[str, str], items: pa.Array, column: pa.Array) -> None:
        """Notes the first known value of each item."""
        values = texts(column, DEFAULT_MISSING)
        known = pc.is_valid(values)
        pairs = pa.table({"item": items.filter(known), "value": values.filter(known)})
        first = pairs.group_by("item", use_threads=False).aggregate([("value", "first")])
        for item, value in zip(first["item"].to_pylist(), first["value_first"].to_pylist(), strict=True):
            noted.setdefault(item, value)

    def _note_columns(self, batch: Batch, items: pa.Array, kept: pa.Array) -> None:
        """Notes the columns of ``item_columns``, texts or lists, of each item's first event with a value of one."""
        columns = {}
        for name in self._parameters.of_items:
            values = batch.rows.column(name).filter(kept)
            is_list = pa.types.is_list(values.type) or pa.types.is_large_list(values.type)
            columns[told_column(name)] = values if is_list else texts(values, DEFAULT_MISSING)
        told = _first_of_each(pa.table({"asin": items, **columns}))
        names = told["asin"].to_pylist()
        is_new = pa.array([name not in self._told_of for name in names], pa.bool_())
        self._told_of.update(names)
        self._told.append(told.filter(is_new))

    def items(self) -> pa.Table:
        """What was read of the items; see ``sorting.item_schema``."""
        names = list(self._categories | self._titles)
        categories = pa.array(map(self._categories.get, names), pa.string()).dictionary_encode()
        titles = pa.array((shown_title(self._titles.get(name)) for name in names), pa.string())
        items = pa.table([pa.array(names, pa.string()), categories, titles], schema=ITEM)
        if not self._told:
            return items
        found = pa.concat_tables(self._told, promote_options="permissive")
        places = pc.index_in(items["asin"], value_set=found["asin"].combine_chunks())
        for name in found.column_names[1:]:
            items = items.append_column(name, found[name].take(places))
        return items


def _first_of_each(told: pa.Table) -> pa.Table:
    """The first row of each item with a value in one of the other columns."""
    told = told.filter(reduce(pc.or_, (column.is_valid() for column in told.columns[1:])))
    items = told["asin"].combine_chunks().dictionary_encode().indices.to_numpy()
    return told.take(pa.array(np.sort(np.unique(items, return_index=True)[1])))
