"""The best candidates for users: the one definition behind ``kfrec recommend`` and the served model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets.raw_rows import USER
from components.scoring.catalogue import POPULAR, Catalogue

RANK, FLAG = "rank", "flag"


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
    users: Sequence[str | None],
    histories: Sequence[Sequence[str | None]],
    top: int,
    *,
    keep_seen: bool | None = None,
    excluded: Sequence[Sequence[str | None]] = (),
    ranked: Callable[[], None] = lambda: None,
) -> Recommended:
    """The best candidates of users.

    Args:
        histories: the items of each user, oldest first.
        top: largest number of items of a user.
        keep_seen: whether items of the history are candidates, too; None is what the model was judged by, see
            ``Catalogue.keeps_seen``.
        excluded: further items of each user that are no candidates; empty excludes none.
    """
    lists = pa.array([list(history) for history in histories], pa.list_(pa.string()))
    keep_seen = catalogue.keeps_seen if keep_seen is None else keep_seen
    left_out_of = np.array([len(each) for each in excluded]) if excluded else 0
    inputs, unknown = catalogue.encoded(pa.array(users, pa.string()), lists, left_out_of)
    seen_by, is_popular = _places(catalogue, histories), catalogue.cold(lists)
    excluded_from = _places(catalogue, excluded or [()] * len(users))
    rows, chosen, values, flags, left = [], [], [], [], np.zeros(len(users), np.int64)
    for user, scores in enumerate(catalogue.scores(inputs, len(users))):
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
        pa.array(users, pa.string()).take(pa.array(owners)),
        pa.array(np.concatenate([np.arange(1, 1 + len(each), dtype=np.int32) for each in chosen]) if chosen else []),
        catalogue.names.take(pa.array(best)).cast(pa.string()),
        pa.array(_joined(values, np.float64)),
        pa.array(_joined(flags, object), pa.string()),
    ]
    return Recommended(pa.table(columns, names=columns_of(catalogue)), left, unknown)


def _places(catalogue: Catalogue, lists: Sequence[Sequence[str | None]]) -> list[np.ndarray]:
    """The distinct places of each list's items among the candidates, ascending."""
    items = pa.array([item for each in lists for item in each], pa.string())
    found = pc.index_in(catalogue.spelled(items), value_set=catalogue.names, skip_nulls=True)
    places, ends = pc.fill_null(found, -1).to_numpy(), np.cumsum([len(each) for each in lists])
    each_list = (np.unique(places[end - len(items) : end]) for items, end in zip(lists, ends, strict=True))
    return [own[own >= 0] for own in each_list]


def _joined(parts: Sequence[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, kind)
