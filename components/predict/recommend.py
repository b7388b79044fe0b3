"""Recommendations to a file, batch of users by batch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets.raw_rows import CANDIDATE, HISTORY, USER, RawColumn, listed
from components.errors import KfrecError
from components.predict.formats import rows_file, writing
from components.predict.history import History, People, histories_of
from components.predict.scoring import replacing
from components.progress import progress
from components.scoring import RawModel
from components.scoring.catalogue import Catalogue, candidate_column
from components.scoring.recommend import columns_of, recommend

_ROWS = 16_384
_USERS = 4096


@dataclass
class Counts:
    """Counts of recommendations.

    Attributes:
        unknown: ids of users and histories that the model does not know.
        empty: users without a candidate.
    """

    users: int = 0
    items: int = 0
    flagged: int = 0
    unknown: int = 0
    empty: int = 0


def recommend_to_file(
    catalogue: Catalogue,
    people: People,
    top: int,
    output: Path,
    sources: list[Path],
    *,
    keep_seen: bool | None,
    exclusions: Exclusions | None = None,
) -> Counts:
    """Writes the best candidates of users, see ``components.scoring.recommend.Recommended``, a batch at a time.

    Args:
        top: largest number of items of a user.
        output: file to write; its suffix gives the format.
        sources: files that it must not replace.
        keep_seen: whether items of the history are candidates, too; None is what the model was judged by.
        exclusions: further items that are no candidates of a user.

    Raises:
        KfrecError: the output may not be replaced, there are no users, or none has a candidate.
    """
    counts = Counts()
    with (
        replacing(output, sources, columns_of(catalogue)) as partial,
        writing(partial, rows_file(output)) as writer,
        progress("recommending", None, "users") as bar,
    ):
        for users, histories in people:
            for first in range(0, len(users), _USERS):
                part = slice(first, first + _USERS)
                lists = recommend(
                    catalogue,
                    users[part],
                    histories[part],
                    top,
                    keep_seen=keep_seen,
                    excluded=exclusions.of(users[part]) if exclusions else (),
                    ranked=bar.advance,
                )
                for batch in lists.table.to_batches():
                    writer.write(batch)
                counts.users += int(np.count_nonzero(lists.candidates))
                counts.empty += int(np.count_nonzero(lists.candidates == 0))
                counts.items += lists.table.num_rows
                counts.flagged += sum(1 for flag in lists.table.column(4).to_pylist() if flag)
                counts.unknown += int(lists.unknown.sum())
        if counts.empty and not counts.users:
            raise KfrecError(
                f"no candidate is left for any of the {counts.empty:,} users: all {len(catalogue.names):,} are in "
                f"their histories{' or excluded' if exclusions else ''}; --keep-seen lists those of histories, too"
            )
        if not counts.users:
            raise KfrecError("no users to recommend to; name records with --data, or users with --users")
    return counts


class Exclusions:
    """Items that are not for a user, such as what the user has bought.

    Args:
        users: ids, string ``[n]``.
        items: of each user, ``[n]``.
    """

    def __init__(self, users: pa.Array, items: pa.Array) -> None:
        self._users, self._items = users, items

    def of(self, users: list[str]) -> list[list[str]]:
        """The items of each of these users."""
        places = pc.index_in(pa.array(users, pa.string()), value_set=self._users)
        return [each or [] for each in self._items.take(places).to_pylist()]


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


def candidates_in(path: Path, model: RawModel) -> pa.Array:
    """The items in a file of rows, in the model's column of candidates.

    Raises:
        KfrecError: there is no such file or column, or it holds no items.
    """
    column, candidates = candidate_column(model), []
    for batch in rows_file(path).batches(_ROWS):
        candidates += _texts(path, batch, column)
    if not any(candidates):
        raise KfrecError(f"{path}: no rows with a value of {column.name}; give a file with a row for each candidate")
    return pa.array(candidates, pa.string())


def users_in(path: Path, model: RawModel, data: str) -> People:
    """The users in a file of rows, in the model's column of users, and their histories.

    Args:
        path: file; without a column of histories these are read from ``data``.
        data: folder or URI of records.

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
    remedy = f"give the column {history.name} in {path}, empty for a user without one, or other records with --data"
    return histories_of([name for names, _ in people for name in names], data, remedy)


def _people_in(path: Path, user: RawColumn, history: RawColumn | None) -> People:
    for batch in rows_file(path).batches(_ROWS):
        users = _texts(path, batch, user)
        if not all(users):
            raise KfrecError(f"{path}: column {user.name} has an empty value; give each row a user")
        yield users, [] if history is None else _lists(path, batch, history)


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


def _lists(path: Path, batch: pa.RecordBatch, column: RawColumn) -> list[History]:
    values = batch[column.name]
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        try:
            lists = values.cast(pa.list_(pa.string())).to_pylist()
        except pa.ArrowException:
            raise KfrecError(f"{path}: column {column.name} is of the type {values.type}; give lists of ids") from None
        return list(map(listed, lists))
    return list(map(listed, _texts(path, batch, column)))
