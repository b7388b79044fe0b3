"""A vocabulary that grows: which values have a row of the embedding tables, and which wait for one.

Beside ``vocabulary/<name>.parquet`` lies ``vocabulary/<name>.seen.parquet``, one line a value:

    value     text
    id        its row; 0 while it waits for one
    count     occurrences since it was first seen
    first     day on which it was first seen
    last      day on which it was last seen
    admitted  day after which it got its row; 0 while it waits

The schema's metadata have ``capacity``, the largest id, and ``until``, the last day that was counted. A day is a whole
number. Counters are exact. A row never moves: a value keeps its id until it leaves, and another one may then take it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.feature_spec.spec import FeatureSpec
from components.feature_spec.values import read_bounded
from components.feature_spec.vocabulary import VOCABULARY

WAITING = 0
# Value of ``vocabulary`` in the metadata section ``encoding``: rows were added to an earlier vocabulary.
GROWN = "grown"
_NUMBERS = ("id", "count", "first", "last", "admitted")
_CAPACITY, _UNTIL = b"capacity", b"until"


def seen_file(name: str) -> str:
    """The path of a vocabulary's counters in an artifact."""
    return f"{VOCABULARY}/{name}.seen.parquet"


def grows(folder: Path) -> bool:
    """Whether the vocabulary of an artifact has counters."""
    return any((folder / VOCABULARY).glob("*.seen.parquet"))


@dataclass(frozen=True)
class Rules:
    """Which values get and lose a row.

    Attributes:
        first: smallest id of a value.
        admit_after: occurrences after which a value gets a row.
        evict_after: days; a value that was not seen for longer loses its row, and one that waits is forgotten.
        evict_share: largest share of the rows that values lose at a time.
    """

    first: int
    admit_after: int
    evict_after: int
    evict_share: float


@dataclass(frozen=True)
class Turnover:
    """How many values got a row, and how many lost theirs."""

    admitted: int
    evicted: int


@dataclass(frozen=True)
class Living:
    """The values of a column; arrays have an entry for each.

    Attributes:
        values: ascending.
        ids, counts, first, last, admitted: int64; see the module.
        capacity: the largest id.
        until: the last day that was counted.
    """

    values: np.ndarray
    ids: np.ndarray
    counts: np.ndarray
    first: np.ndarray
    last: np.ndarray
    admitted: np.ndarray
    capacity: int
    until: int

    @classmethod
    def empty(cls, values: np.ndarray) -> Living:
        """No value yet; ``values`` is an empty array of their type."""
        none = np.zeros(0, np.int64)
        return cls(values, none, none, none, none, none, 0, 0)

    def counted(self, values: np.ndarray, counts: np.ndarray, day: int) -> Living:
        """With the occurrences of a later day.

        Args:
            values: ascending.
            counts: int64.
        """
        days = np.full(len(values), day, np.int64)
        return self.seen(values, counts, days, days, day)

    def seen(self, values: np.ndarray, counts: np.ndarray, first: np.ndarray, last: np.ndarray, until: int) -> Living:
        """With the occurrences of some later days.

        Args:
            values: ascending.
            counts: int64.
            first: int64, the first of these days on which each value was seen.
            last: int64, the last one.
            until: the last of these days.
        """
        every = np.union1d(self.values, values)
        old, new = np.searchsorted(every, self.values), np.searchsorted(every, values)

        def spread(numbers: np.ndarray, later: np.ndarray | None = None) -> np.ndarray:
            wide = np.zeros(len(every), np.int64)
            if later is not None:
                wide[new] = later
            wide[old] = numbers
            return wide

        total, newest = spread(self.counts), spread(self.last)
        total[new] += counts
        newest[new] = last
        return replace(
            self, values=every, ids=spread(self.ids), counts=total, first=spread(self.first, first), last=newest,
            admitted=spread(self.admitted), until=until,
        )  # fmt: skip

    def with_ids(self, values: np.ndarray, ids: np.ndarray, capacity: int) -> Living:
        """With the rows of a fitted vocabulary; ``values`` are among those that were counted."""
        rows, admitted = np.zeros_like(self.ids), np.zeros_like(self.ids)
        positions = np.searchsorted(self.values, values)
        rows[positions], admitted[positions] = ids, self.until
        return replace(self, ids=rows, admitted=admitted, capacity=capacity)

    def grown(self, rules: Rules) -> tuple[Living, Turnover]:
        """After the last counted day: values leave, and others take their rows or free ones.

        The weight of a value is count / (days since it was last seen + 1). Values that were not seen for
        ``evict_after`` leave, those unseen for longest first. Values that wait and occurred ``admit_after`` times get
        free rows, the heaviest first; without a free row one takes that of the lightest value, if it is heavier.
        """
        unseen = self.until - self.last
        weights = self.counts / (unseen + 1.0)
        held, current = self.ids != WAITING, unseen <= rules.evict_after
        quota = int(rules.evict_share * (self.capacity - rules.first + 1))
        leaving = np.flatnonzero(held & ~current)
        leaving = leaving[np.lexsort((leaving, weights[leaving], self.last[leaving]))][:quota]
        staying = held.copy()
        staying[leaving] = False

        free = np.setdiff1d(np.arange(rules.first, self.capacity + 1), self.ids[staying])
        coming = np.flatnonzero(~held & current & (self.counts >= rules.admit_after))
        coming = coming[np.lexsort((coming, -weights[coming]))]
        admitted, rest = coming[: len(free)], coming[len(free) :]
        lightest = np.flatnonzero(staying)
        lightest = lightest[np.lexsort((lightest, weights[lightest]))][: min(quota - len(leaving), len(rest))]
        replaced = lightest[weights[lightest] < weights[rest[: len(lightest)]]]
        admitted = np.concatenate([admitted, rest[: len(replaced)]])
        rows = np.concatenate([free, self.ids[replaced]])[: len(admitted)]

        ids, since = self.ids.copy(), self.admitted.copy()
        gone = np.concatenate([leaving, replaced])
        ids[gone] = WAITING
        ids[admitted], since[admitted] = rows, self.until
        kept = (ids != WAITING) | current
        kept[gone] = False  # a value that comes back is counted anew
        grown = replace(
            self, values=self.values[kept], ids=ids[kept], counts=self.counts[kept], first=self.first[kept],
            last=self.last[kept], admitted=since[kept],
        )  # fmt: skip
        return grown, Turnover(len(admitted), len(gone))

    def by_id(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids in use, ascending, and their values."""
        held = np.flatnonzero(self.ids != WAITING)
        held = held[np.argsort(self.ids[held])]
        return self.ids[held], self.values[held]

    def write(self, path: Path, text: Callable[[np.ndarray], pa.Array]) -> None:
        """Writes the counters.

        Args:
            text: converts values to strings.
        """
        numbers = dict(zip(_NUMBERS, (self.ids, self.counts, self.first, self.last, self.admitted), strict=True))
        table = pa.table({"value": text(self.values), **numbers})
        noted = {_CAPACITY: str(self.capacity), _UNTIL: str(self.until)}
        pq.write_table(table.replace_schema_metadata(noted), path)


def read_living(path: Path, remedy: str, read: Callable[[pa.Array], np.ndarray]) -> Living:
    """The counters that ``Living.write`` wrote.

    Args:
        remedy: for an invalid file, for messages.
        read: converts strings to values.

    Raises:
        KfrecError: the file is missing, damaged, or has a value or an id twice.
    """
    try:
        noted = pq.read_schema(path).metadata or {}
        table = read_bounded(path, ["value", *_NUMBERS])
        values = read(table["value"])
        ids, counts, first, last, admitted = (np.array(table[name], np.int64) for name in _NUMBERS)
        living = Living(values, ids, counts, first, last, admitted, int(noted[_CAPACITY]), int(noted[_UNTIL]))
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise KfrecError(f"{path}: no counters of a vocabulary ({str(error).splitlines()[0]}); {remedy}") from None
    held = ids[ids != WAITING]
    ascending = len(values) < 2 or bool((values[1:] > values[:-1]).all())
    if not ascending or len(np.unique(held)) != len(held) or held.max(initial=0) > living.capacity:
        raise KfrecError(f"{path}: has a value or an id twice, or an id beyond its capacity; {remedy}")
    return living


def newly_admitted(spec: FeatureSpec) -> dict[str, np.ndarray]:
    """The ids that got a row in the preprocessing that wrote the data, int64, by feature; without those that have none.

    Raises:
        KfrecError: a vocabulary's counters are damaged.
    """
    if spec.metadata.get("encoding", {}).get("vocabulary") != GROWN:
        return {}
    found: dict[str, np.ndarray] = {}
    for vocabulary in spec.vocabularies:
        path = spec.folder / seen_file(vocabulary.name)
        if not path.is_file():
            continue  # Vocabularies beside those that grow keep their values.
        try:
            until = int(pq.read_schema(path).metadata[_UNTIL])
            table = read_bounded(path, ["id", "admitted"])
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise KfrecError(
                f"{path}: no counters of a vocabulary ({str(error).splitlines()[0]}); restore it"
            ) from None
        ids, admitted = (np.array(table[name], np.int64) for name in ("id", "admitted"))
        if len(new := np.sort(ids[(ids != WAITING) & (admitted == until)])):
            found |= dict.fromkeys(vocabulary.features, new)
    return found
