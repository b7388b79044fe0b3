"""The best candidates for users: the one definition behind ``kfrec recommend`` and the served model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets.event_lists import items_of, lengths_of
from components.datasets.raw_rows import USER
from components.scoring.catalogue import POPULAR, Catalogue
from components.scoring.ranking import best_of, best_of_each, ranks_in

RANK, FLAG = "rank", "flag"
_LISTS = pa.list_(pa.string())


@dataclass(frozen=True)
class Recommended:
    """Ranked candidates of some users.

    Attributes:
        table: columns of the user, the rank from 1, the candidate, its value and its flag, by user and rank; see
            ``components.scoring.catalogue.Catalogue``.
        lengths: items of each user's list, ``[users]``.
        candidates: ranked candidates of each user, without the excluded ones, ``[users]``.
        unknown: ids of each user and history that the model does not know, ``[users]``.
    """

    table: pa.Table
    lengths: np.ndarray
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
    keep_seen: bool | None = None,
    excluded: Sequence[Sequence[str | None]] | pa.Array = (),
    per_category: int = 0,
    context: Mapping[str, pa.Array] | None = None,
    ranked: Callable[[int], None] = lambda count: None,
) -> Recommended:
    """The best candidates of users.

    Args:
        users: ids, string ``[n]``.
        histories: the items of each user, oldest first, list of string ``[n]``, or their events; see
            ``components.datasets.event_lists``.
        top: largest number of items of a user.
        keep_seen: whether items of the history are candidates, too; None is what the model was judged by, see
            ``Catalogue.keeps_seen``.
        excluded: further items of each user that are no candidates; empty excludes none.
        per_category: most items of a category in a list; 0 is any number.
        context: what is known of the event of each user, see ``Catalogue.encoded``.
        ranked: called with the number of users that were ranked.
    """
    names, events = _array(users, pa.string()), _array(histories, _LISTS)
    lists = items_of(events)
    others = _array(excluded if len(excluded) else [[]] * len(names), _LISTS)
    inputs, unknown = catalogue.encoded(names, events, lengths_of(others), context)
    seen, is_popular = _Places.of(catalogue, lists), catalogue.cold(lists)
    keep_seen = catalogue.keeps_seen if keep_seen is None else keep_seen
    left_out = [_Places.of(catalogue, others), *([] if keep_seen else [seen])]
    left = np.zeros(len(names), np.int64)

    def listed(users: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        for places in left_out:
            scores[places.among(users)] = -np.inf
        if catalogue.log_boost is not None:
            scores += catalogue.log_boost
        left[users] = np.count_nonzero(scores > -np.inf, axis=1)
        order = (scores, top, catalogue.behind, catalogue.level)
        rows, best = best_of_each(*order, catalogue.categories, per_category) if per_category else best_of(*order)
        return users[rows], best, catalogue.values(scores, rows, best)

    parts, first = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))], 0
    for scores in catalogue.blocks(inputs, len(names)):
        block = np.arange(first, first + len(scores))
        popular = is_popular[block]
        if popular.any() and catalogue.popularity is not None:
            of_popular = [
                catalogue.popularity.scores(seen.among(block[row : row + 1])[1]) for row in popular.nonzero()[0]
            ]
            parts.append(listed(block[popular], np.stack(of_popular)))
            block, scores = block[~popular], scores[~popular]
        parts.append(listed(block, scores))
        first += len(popular)
        ranked(len(popular))
    owners, best, values = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(owners, kind="stable")
    owners, best = owners[order], best[order]
    columns = [
        names.take(pa.array(owners)),
        pa.array(ranks_in(owners).astype(np.int32)),
        catalogue.names.take(pa.array(best)).cast(pa.string()),
        pa.array(values[order]),
        pa.array(np.where(is_popular[owners], POPULAR, catalogue.flags[best]), pa.string()),
    ]
    lengths = np.bincount(owners, minlength=len(names))
    return Recommended(pa.table(columns, names=columns_of(catalogue)), lengths, left, unknown)


def _array(values: Sequence[Any] | pa.Array, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(list(values), kind)


@dataclass(frozen=True)
class _Places:
    """Items of users as places among the candidates, one user after the other.

    Attributes:
        ends: int64 ``[users + 1]``, the end of each user's places, after a 0.
    """

    places: np.ndarray
    ends: np.ndarray

    @staticmethod
    def of(catalogue: Catalogue, lists: pa.Array) -> _Places:
        """The places of lists of items, without those that are no candidates."""
        found = pc.index_in(catalogue.spelled(lists.flatten()), value_set=catalogue.names, skip_nulls=True)
        is_there = np.append(0, np.cumsum(found.is_valid().to_numpy(zero_copy_only=False)))
        ends = np.append(0, np.cumsum(lengths_of(lists)))
        return _Places(found.drop_null().to_numpy(), is_there[ends])

    def among(self, users: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places of some users, and each one's row in ``users``."""
        starts, sizes = self.ends[users], np.diff(self.ends)[users]
        rows = np.repeat(np.arange(len(users)), sizes)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return rows, self.places[np.repeat(starts, sizes) + within]
