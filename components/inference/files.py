"""What the files of lists say: users, candidates, and items that are not for a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets.raw_rows import CANDIDATE, CONTEXT, HISTORY, USER, RawColumn
from components.errors import KfrecError
from components.feature_spec.item_columns import ItemColumns
from components.inference.formats import rows_file
from components.inference.history import People, PeopleInContext, some
from components.scoring import RawModel
from components.scoring.catalogue import candidate_column, encoded_by_role
from components.workflows.times import Times
from components.workflows.values import DEFAULT_MISSING, numbers, plain_type, texts

_ROWS = 16_384
_USERS = 4096
# Events of users, see ``components.scoring.RawModel.events``; None is those of the data.
Histories = list[list[Any] | None]
# Columns of a file of candidates: the factor of an item, and when it is no candidate any more.
BOOST, AVAILABLE_UNTIL = "boost", "available_until"
# Their category tonight, which items that the model does not know are listed by.
CATEGORY = "category"


def exclusions_in(path: Path, model: RawModel) -> pa.Table:
    """Columns user and item of a file of rows, in the model's columns of users and candidates.

    Raises:
        KfrecError: there is no such file or column, or it holds no pairs.
    """
    user, item = (_column(model, role) for role in (USER, CANDIDATE))
    pairs = [
        pa.table({"user": _texts(path, batch, user, model), "item": _texts(path, batch, item, model)})
        for batch in rows_file(path).batches(_ROWS)
    ]
    if not pairs:
        raise KfrecError(f"{path}: no rows in it; give a file with a row for each user and item, or no --exclude")
    return pa.concat_tables(pairs, promote_options="permissive")


class Candidates(NamedTuple):
    """What a file of candidates tells, as ``Catalogue`` takes it.

    Attributes:
        items: text ``[n]``.
        boosts: the factors in the column boost, float64 ``[n]``; None without the column, as the others.
        categories: the names in the column category, text ``[n]``.
        columns: vectors of the columns of items that the model reads, float32 ``[n, width]``.
    """

    items: pa.Array
    boosts: np.ndarray | None = None
    categories: pa.Array | None = None
    columns: np.ndarray | None = None


def candidates_in(path: Path, model: RawModel, at: float) -> Candidates:
    """The items in a file of rows, in the model's column of candidates, that are available.

    Args:
        at: seconds since 1970; items whose time in the column available_until is before it are left out.

    Raises:
        KfrecError: there is no such file or column, it holds no items, a time or factor is none, or it has some of the
            columns of items that the model reads, but not all.
    """
    known = model.model.item_columns
    column, rows = candidate_column(model), 0
    items: list[str | None] = []
    boosts: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    categories: list[pa.Array] = []
    vectors: list[np.ndarray] = []
    times = Times(AVAILABLE_UNTIL, "", str(path), "with the year first")
    for batch in rows_file(path).batches(_ROWS):
        items += _texts(path, batch, column, model).to_pylist()
        if BOOST in batch.schema.names:
            factors, wrong = numbers(batch[BOOST], DEFAULT_MISSING)
            _require(path, rows, batch[BOOST], BOOST, wrong | (factors <= 0) | np.isinf(factors), "a factor above 0")
            boosts.append(np.where(np.isnan(factors), 1, factors))
        if CATEGORY in batch.schema.names:
            categories.append(texts(batch[CATEGORY], DEFAULT_MISSING).cast(pa.string()))
        if known is not None and not set(known.names).isdisjoint(batch.schema.names):
            vectors.append(_vectors(path, batch, known))
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
    return Candidates(
        pa.array(items, pa.string()).filter(pa.array(available)),
        np.concatenate(boosts)[available] if boosts else None,
        pa.concat_arrays(categories).filter(pa.array(available)) if categories else None,
        np.concatenate(vectors)[available] if vectors else None,
    )


def _vectors(path: Path, batch: pa.RecordBatch, known: ItemColumns) -> np.ndarray:
    if lacking := next((name for name in known.names if name not in batch.schema.names), ""):
        raise KfrecError(f"{path}: no column {lacking}; the model knows items by {', '.join(known.names)}, so add it")
    try:
        return known.encode({name: plain_type(name, batch[name]) for name in known.names})
    except KfrecError as error:
        raise KfrecError(f"{path}: {error}") from None


def seconds_of(time: str, option: str = "--at") -> float:
    """A time of an option or a parameter as seconds since 1970.

    Raises:
        KfrecError: it is none.
    """
    times = Times("time", "", option)
    value = times.require_kind(time, "the time")
    times.read(pa.array([time]), ())
    return value / times.per_second


def _require(path: Path, before: int, column: pa.Array, name: str, wrong: np.ndarray, wanted: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise KfrecError(f"{path}: row {before + row + 1}: {name} is {column[row].as_py()!r}; give {wanted}")


def users_in(path: Path, model: RawModel, histories: Callable[[Sequence[str], str], People]) -> PeopleInContext:
    """The users in a file of rows, in the model's column of users, their histories, and what else is known of them.

    Args:
        histories: called with the users whose history is blank or whose file has no such column, and the remedy of
            errors.

    Raises:
        KfrecError: there is no such file or column, it holds no users, or none whose history is blank is in the data.
    """
    of_data: list[str] = []
    given = empty = 0
    for users, lists, _ in _people_in(path, model):
        of_data += [user for user, items in zip(users, lists, strict=True) if items is None]
        given += sum(bool(items) for items in lists)
        empty += sum(items == [] for items in lists)
    if not of_data and not given and not empty:
        raise KfrecError(f"{path}: no rows in it; give a file with a row for each user")
    blank = f"{len(of_data):,} blank ones are from the data"
    print(f"{path}: {given:,} histories are given, {blank}, {empty:,} are empty", flush=True)
    column = f"the column {_column(model, HISTORY).name} in {path}"
    remedy = f"give {column}, [] for a user without one, or other events with --events"
    known = _one_by_one(histories(of_data, remedy)) if of_data else iter(())
    return _with_known(path, model, known)


def _with_known(path: Path, model: RawModel, known: Iterator[list[Any] | None]) -> PeopleInContext:
    """The users of a file, with the next history of the data in place of each blank one.

    Those who are not in the data are new: their history is empty.
    """
    new = []
    for users, lists, context in _people_in(path, model):
        filled = []
        for user, items in zip(users, lists, strict=True):
            own = next(known) if items is None else items
            if own is None:
                new.append(user)
            filled.append(own or [])
        yield pa.array(users, pa.string()), model.event_lists(filled), context
    if new:
        print(f"{path}: {some(new)} not in the data: taken as new customers, without a history", flush=True)


def _one_by_one(people: People) -> Iterator[list[Any] | None]:
    for _, lists in people:
        for first in range(0, len(lists), _USERS):
            yield from lists.slice(first, _USERS).to_pylist()


def _people_in(path: Path, model: RawModel) -> Iterator[tuple[list[str], Histories, dict[str, pa.Array]]]:
    user, history = (_column(model, role) for role in (USER, HISTORY))
    for batch in rows_file(path).batches(_ROWS):
        users = _texts(path, batch, user, model)
        if users.null_count or pc.any(pc.equal(users, "")).as_py():
            raise KfrecError(f"{path}: column {user.name} has an empty value; give each row a user")
        lists: Histories = [None] * len(users)
        if history.name in batch.schema.names:
            with _of_file(path):
                lists = model.events({name: batch[name] for name in batch.schema.names})
        there = [each for each in model.columns if each.name in batch.schema.names]
        context = {each.name: batch[each.name] for each in there if each.role == CONTEXT}
        with _of_file(path):
            encoded_by_role(model, {USER: users}, context)
        yield users.to_pylist(), lists, context


def _column(model: RawModel, role: str) -> RawColumn:
    column = model.column_of(role)
    return column if column is not None else RawColumn(role, "", f"the {role}", role)


def _texts(path: Path, batch: pa.RecordBatch, column: RawColumn, model: RawModel) -> pa.Array:
    if column.name not in batch.schema.names:
        has = ", ".join(batch.schema.names)
        raise KfrecError(f"{path}: has no column {column.name} ({column.help}); it has {has}")
    with _of_file(path):
        return model.spelled(column.name, batch[column.name]).cast(pa.string())


@contextmanager
def _of_file(path: Path) -> Iterator[None]:
    try:
        yield
    except KfrecError as error:
        raise KfrecError(f"{path}: {error}") from None
