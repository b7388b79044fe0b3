"""Recommendations to a file, batch of users by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets.raw_rows import CANDIDATE, HISTORY, USER, RawColumn, listed
from components.errors import KfrecError
from components.predict.delivery import delivering, is_database
from components.predict.formats import RowsWriter, rows_file, writing
from components.predict.history import People
from components.predict.scoring import replacing
from components.progress import progress
from components.scoring import RawModel
from components.scoring.catalogue import Catalogue, candidate_column, every_candidate
from components.scoring.recommend import FLAG, columns_of, recommend
from components.workflows.times import Times
from components.workflows.values import DEFAULT_MISSING, numbers

_ROWS = 16_384
_USERS = 4096
# Columns of lists that say what made them.
MODEL, VERSION = "model", "version"
# Columns of a file of candidates: the factor of an item, and when it is no candidate any more.
BOOST, AVAILABLE_UNTIL = "boost", "available_until"
# The columns of a file of users without a list, and why a user has none.
LEFT_OUT = ("user", "reason")
NO_CANDIDATE = "no candidate is left: all are in the history or excluded"


@dataclass
class Counts:
    """Counts of recommendations.

    Attributes:
        events: items of the histories.
        unknown: of these, items that are not in the model's vocabulary.
        empty: users without a candidate.
    """

    users: int = 0
    items: int = 0
    flagged: int = 0
    events: int = 0
    unknown: int = 0
    empty: int = 0


@dataclass(frozen=True)
class Delivery:
    """Where lists go.

    Attributes:
        output: a file, whose suffix gives the format, or the SQLAlchemy URL of a database.
        sources: files that it must not replace.
        model, version: what made the lists; columns of each row.
        table: of a database.
    """

    output: str
    sources: list[Path]
    model: str = ""
    version: str = ""
    table: str = "lists"

    @contextmanager
    def writing(self, catalogue: Catalogue) -> Iterator[Callable[[pa.Table], None]]:
        """Yields a function that takes lists, which appear all at once at the end of the block.

        Raises:
            KfrecError: the file may not be replaced, or the database cannot be used.
        """
        columns = (*columns_of(catalogue), MODEL, VERSION)
        with (
            delivering(self.output, self.table, self.model)
            if is_database(self.output)
            else _replaced(Path(self.output), self.sources, columns)
        ) as writer:

            def write(lists: pa.Table) -> None:
                for name, value in ((MODEL, self.model), (VERSION, self.version)):
                    lists = lists.append_column(name, pa.array([value] * len(lists), pa.string()))
                for batch in lists.to_batches():
                    writer.write(batch)

            yield write


def write_lists(
    catalogue: Catalogue,
    people: People,
    top: int,
    delivery: Delivery,
    *,
    keep_seen: bool | None,
    exclusions: Exclusions | None = None,
    per_category: int = 0,
    left_out: Path | None = None,
) -> Counts:
    """Writes the best candidates of users, see ``components.scoring.recommend.Recommended``, a batch at a time.

    Args:
        top: largest number of items of a user.
        delivery: where they go.
        keep_seen: whether items of the history are candidates, too; None is what the model was judged by.
        exclusions: further items that are no candidates of a user.
        per_category: most items of a category in a list; 0 is any number.
        left_out: file to write the users without a list to, and why they have none.

    Raises:
        KfrecError: an output may not be replaced, there are no users, or none has a candidate.
    """
    counts, known = Counts(), every_candidate(catalogue.raw)
    with ExitStack() as opened:
        write = opened.enter_context(delivery.writing(catalogue))
        without = opened.enter_context(_replaced(left_out, delivery.sources, LEFT_OUT)) if left_out else None
        bar = opened.enter_context(progress("recommending", None, "users"))
        for users, histories in people:
            for first in range(0, len(users), _USERS):
                names, own = (each.slice(first, _USERS) for each in (users, histories))
                lists = recommend(
                    catalogue,
                    names,
                    own,
                    top,
                    keep_seen=keep_seen,
                    excluded=exclusions.of(names) if exclusions else (),
                    per_category=per_category,
                    ranked=bar.advance,
                )
                write(lists.table)
                if without is not None:
                    lacking = names.filter(pa.array(lists.candidates == 0))
                    why = pa.array([NO_CANDIDATE] * len(lacking), pa.string())
                    without.write(pa.RecordBatch.from_arrays([lacking, why], names=LEFT_OUT))
                items = catalogue.spelled(own.flatten())
                counts.events += len(items)
                counts.unknown += pc.index_in(items, value_set=known, skip_nulls=True).null_count
                counts.users += int(np.count_nonzero(lists.candidates))
                counts.empty += int(np.count_nonzero(lists.candidates == 0))
                counts.items += lists.table.num_rows
                counts.flagged += pc.sum(pc.not_equal(lists.table[FLAG], "")).as_py() or 0
        if counts.empty and not counts.users:
            raise KfrecError(
                f"no candidate is left for any of the {counts.empty:,} users: all {len(catalogue.names):,} are in "
                f"their histories{' or excluded' if exclusions else ''}; --keep-seen lists those of histories, too"
            )
        if not counts.users:
            raise KfrecError("no users to recommend to; name records with --data, or users with --users")
    return counts


@contextmanager
def _replaced(output: Path, sources: list[Path], columns: tuple[str, ...]) -> Iterator[RowsWriter]:
    with replacing(output, sources, columns) as partial, writing(partial, rows_file(output)) as writer:
        yield writer


class Exclusions:
    """Items that are not for a user, such as what the user has bought.

    Args:
        users: ids, string ``[n]``.
        items: of each user, ``[n]``.
    """

    def __init__(self, users: pa.Array, items: pa.Array) -> None:
        self._users, self._items = users, items

    def of(self, users: pa.Array) -> pa.Array:
        """The items of each of these users, list of string; null for none."""
        return self._items.take(pc.index_in(users, value_set=self._users))


def exclusions_in(path: Path, model: RawModel) -> Exclusions:
    """The pairs of a user and an item in a file of rows, in the model's columns of users and candidates.

    Raises:
        KfrecError: there is no such file or column, or it holds no pairs.
    """
    user, item = (_column(model, role) for role in (USER, CANDIDATE))
    pairs = [
        pa.table({"user": _texts(path, batch, user), "item": _texts(path, batch, item)})
        for batch in rows_file(path).batches(_ROWS)
    ]
    if not pairs:
        raise KfrecError(f"{path}: no rows in it; give a file with a row for each user and item, or no --exclude")
    of_users = pa.concat_tables(pairs, promote_options="permissive").group_by("user").aggregate([("item", "distinct")])
    return Exclusions(of_users["user"].combine_chunks(), of_users["item_distinct"].combine_chunks())


def candidates_in(path: Path, model: RawModel, at: float) -> tuple[pa.Array, np.ndarray | None]:
    """The items in a file of rows, in the model's column of candidates, that are available.

    Args:
        at: seconds since 1970; items whose time in the column available_until is before it are left out.

    Returns:
        The items, and the factors in the column boost, float64; None without this column.

    Raises:
        KfrecError: there is no such file or column, it holds no items, or a time or factor is none.
    """
    column, rows = candidate_column(model), 0
    items: list[str | None] = []
    boosts: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    times = Times(AVAILABLE_UNTIL, "", str(path), "with the year first")
    for batch in rows_file(path).batches(_ROWS):
        items += _texts(path, batch, column)
        if BOOST in batch.schema.names:
            factors, wrong = numbers(batch[BOOST], DEFAULT_MISSING)
            _require(path, rows, batch[BOOST], BOOST, wrong | (factors <= 0) | np.isinf(factors), "a factor above 0")
            boosts.append(np.where(np.isnan(factors), 1, factors))
        if AVAILABLE_UNTIL in batch.schema.names:
            until, wrong = times.read(batch[AVAILABLE_UNTIL], DEFAULT_MISSING)
            _require(path, rows, batch[AVAILABLE_UNTIL], AVAILABLE_UNTIL, wrong, "a time, such as 2026-11-28 20:00")
            ends.append(until)
        rows += len(batch)
    if not any(items):
        raise KfrecError(f"{path}: no rows with a value of {column.name}; give a file with a row for each candidate")
    if times.are_days:
        raise KfrecError(f"{path}: column {AVAILABLE_UNTIL} holds days as YYYYMMDD; write them as 2026-11-28")
    available = ~(np.concatenate(ends) / times.per_second < at) if ends else np.ones(rows, bool)
    if not available.any():
        raise KfrecError(f"{path}: all items are past their {AVAILABLE_UNTIL}; give newer ones, or an earlier --at")
    kept = pa.array(items, pa.string()).filter(pa.array(available))
    return kept, np.concatenate(boosts)[available] if boosts else None


def seconds_of(time: str) -> float:
    """A time of a command line as seconds since 1970.

    Raises:
        KfrecError: it is none.
    """
    times = Times("time", "", "--at")
    value = times.require_kind(time, "the time")
    times.read(pa.array([time]), ())
    return value / times.per_second


def _require(path: Path, before: int, column: pa.Array, name: str, wrong: np.ndarray, wanted: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise KfrecError(f"{path}: row {before + row + 1}: {name} is {column[row].as_py()!r}; give {wanted}")


def users_in(path: Path, model: RawModel, histories: Callable[[Sequence[str], str], People]) -> People:
    """The users in a file of rows, in the model's column of users, and their histories.

    Args:
        histories: called for a file without a column of histories, with its users and the remedy of errors.

    Raises:
        KfrecError: there is no such file or column, it holds no users, or a user is not in the data.
    """
    user, history = (_column(model, role) for role in (USER, HISTORY))
    first = next(rows_file(path).batches(1), None)
    if first is None:
        raise KfrecError(f"{path}: no rows in it; give a file with a row for each user")
    people = _people_in(path, user, history if history.name in first.schema.names else None)
    if history.name in first.schema.names:
        return people
    remedy = f"give the column {history.name} in {path}, empty for a user without one, or other events with --events"
    return histories([name for names, _ in people for name in names.to_pylist()], remedy)


def _people_in(path: Path, user: RawColumn, history: RawColumn | None) -> People:
    for batch in rows_file(path).batches(_ROWS):
        users = _texts(path, batch, user)
        if not all(users):
            raise KfrecError(f"{path}: column {user.name} has an empty value; give each row a user")
        lists = [[] for _ in users] if history is None else _lists(path, batch, history)
        yield pa.array(users, pa.string()), pa.array(lists, pa.list_(pa.string()))


def _column(model: RawModel, role: str) -> RawColumn:
    column = model.column_of(role)
    return column if column is not None else RawColumn(role, "", f"the {role}", role)


def _texts(path: Path, batch: pa.RecordBatch, column: RawColumn) -> list[str]:
    if column.name not in batch.schema.names:
        has = ", ".join(batch.schema.names)
        raise KfrecError(f"{path}: has no column {column.name} ({column.help}); it has {has}")
    try:
        texts: list[str] = batch[column.name].cast(pa.string()).to_pylist()
    except pa.ArrowException:
        raise KfrecError(f"{path}: column {column.name} is of the type {batch[column.name].type}; give ids") from None
    return texts


def _lists(path: Path, batch: pa.RecordBatch, column: RawColumn) -> list[list[str | None]]:
    values = batch[column.name]
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        try:
            lists = values.cast(pa.list_(pa.string())).to_pylist()
        except pa.ArrowException:
            raise KfrecError(f"{path}: column {column.name} is of the type {values.type}; give lists of ids") from None
        return list(map(listed, lists))
    return list(map(listed, _texts(path, batch, column)))
