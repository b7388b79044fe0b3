"""The best candidates for users: the one definition behind ``kfrec recommend`` and the served model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets.raw_rows import USER
from components.scoring.catalogue import POPULAR, Catalogue

RANK, FLAG = "rank", "flag"
_LISTS = pa.list_(pa.string())


@dataclass(frozen=True)
class Recommended:
    """Ranked candidates of some users.

    Attributes:
        table: columns of the user, the rank from 1, the candidate, its value and its flag, by user and rank; see
            ``components.scoring.catalogue.Catalogue``.
        candidates: ranked candidates of each user, without the excluded ones, ``[users]``.
        unknown: ids of each user and history that the model does not know, ``[users]``.
    """

    table: pa.Table
    candidates: np.ndarray
    unknown: np.ndarray


def columns_of(catalogue: Catalogue) -> tuple[str, ...]:
    """The names of the table's columns."""
    user = catalogue.raw.column_of(USER)
    return (user.name if user else USER, RANK, catalogue.column.name, catalogue.value, FLAG)


def recommend(
    catalogue: Catalogue,
    users: Sequence[str | None] | pa.Array,
    histories: Sequence[Sequence[str | None]] | pa.Array,
    top: int,
    *,
    keep_seen: bool = False,
    excluded: Sequence[Sequence[str | None]] | pa.Array = (),
    ranked: Callable[[], None] = lambda: None,
) -> Recommended:
    """The best candidates of users.

    Args:
        users: ids, string ``[n]``.
        histories: the items of each user, oldest first, list of string ``[n]``.
        top: largest number of items of a user.
        keep_seen: whether items of the history are candidates, too.
        excluded: further items of each user that are no candidates; empty excludes none.
    """
    names, lists = _array(users, pa.string()), _array(histories, _LISTS)
    others = _array(excluded if len(excluded) else [[]] * len(names), _LISTS)
    inputs, unknown = catalogue.encoded(names, lists, _lengths(others))
    seen_by, is_popular = _places(catalogue, lists), catalogue.cold(lists)
    excluded_from = _places(catalogue, others)
    rows, chosen, values, flags, left = [], [], [], [], np.zeros(len(names), np.int64)
    for user, scores in enumerate(catalogue.scores(inputs, len(names))):
        seen = seen_by[user]
        if is_popular[user] and catalogue.popularity is not None:
            scores = catalogue.popularity.scores(seen)
        left_out = excluded_from[user] if keep_seen else np.union1d(seen, excluded_from[user])
        best = catalogue.best(scores, left_out, top)
        rows.append(np.full(len(best), user))
        chosen.append(best)
        values.append(catalogue.values(scores, left_out, best))
        flags.append(np.full(len(best), POPULAR, object) if is_popular[user] else catalogue.flags[best])
        left[user] = np.count_nonzero(catalogue.left(scores, left_out))
        ranked()
    owners, best = _joined(rows, np.int64), _joined(chosen, np.int64)
    columns = [
        names.take(pa.array(owners)),
        pa.array(np.concatenate([np.arange(1, 1 + len(each), dtype=np.int32) for each in chosen]) if chosen else []),
        catalogue.names.take(pa.array(best)).cast(pa.string()),
        pa.array(_joined(values, np.float64)),
        pa.array(_joined(flags, object), pa.string()),
    ]
    return Recommended(pa.table(columns, names=columns_of(catalogue)), left, unknown)


def _array(values: Sequence[Any] | pa.Array, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(list(values), kind)


def _lengths(lists: pa.Array) -> np.ndarray:
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy()


def _places(catalogue: Catalogue, lists: pa.Array) -> list[np.ndarray]:
    """The distinct places of each list's items among the candidates, ascending."""
    found = pc.index_in(catalogue.spelled(lists.flatten()), value_set=catalogue.names, skip_nulls=True)
    places, ends = pc.fill_null(found, -1).to_numpy(), np.cumsum(_lengths(lists))
    each_list = (np.unique(own) for own in np.split(places, ends[:-1]))
    return [own[own >= 0] for own in each_list]


def _joined(parts: Sequence[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, kind)
