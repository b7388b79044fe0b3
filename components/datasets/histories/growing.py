"""The vocabulary of users, items and categories that grows from night to night.

A night counts the events that train since the last one, which the sampling of the earlier specification tells. Events
before them are read for the histories of their users, and are not counted again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from dask import delayed

from components.artifacts.folder import require_listed
from components.datasets.histories.encoding import FIRST_ID, NAMES, Encoder, encoder_of
from components.datasets.histories.sorting import DAY, TARGET
from components.datasets.histories.splits import Night
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.feature_spec.catalogue import NONE, read_catalogue
from components.feature_spec.living import Living, Rules, Turnover, read_living, seen_file
from components.workflows.workers import Workers, in_order

if TYPE_CHECKING:
    from components.datasets.histories.parameters import PreprocessReviews

_REMEDY = "give an earlier output of this step for this data set, or leave workflow empty"
_SEEN = {"count": "sum", "first": "min", "last": "max"}


@dataclass(frozen=True)
class Earlier:
    """An earlier night's vocabulary.

    Attributes:
        folder: of its output.
        end: of what it has counted, in nanoseconds since 1970.
    """

    folder: Path
    end: int


def require_growing(folder: Path, location: str) -> Earlier:
    """The vocabulary to grow.

    Args:
        location: of ``folder``, for messages.

    Raises:
        KfrecError: it has no counters, or none of a split by time, or a file is no part of the artifact.
    """
    if not all((folder / seen_file(name)).is_file() for name in NAMES):
        raise KfrecError(
            f"{location}: its vocabulary has no counters, so it cannot grow; set vocabulary_slack=0 to keep it as it "
            "is, or leave workflow empty to fit one"
        )
    require_listed(folder, map(seen_file, NAMES))
    cuts = load_feature_spec(folder).cuts
    if "train_end" not in cuts:
        raise KfrecError(f"{location}: its events are not split by time; {_REMEDY}")
    return Earlier(folder, cuts["train_end"])


def night_of(
    workers: Workers, histories: Sequence[Path], begin: int, train_end: int, parameters: PreprocessReviews
) -> tuple[Night, int]:
    """What trains since a moment, and the number of earlier events that train once more.

    Args:
        histories: files of the schema ``sorting.HISTORY``.
    """
    task = delayed(_targets, pure=False)
    counts = in_order(workers, [task(path, begin, train_end) for path in histories])
    new, older = (sum(each) for each in zip(*counts, strict=True))
    night = Night(begin, parameters.replay_share * new / max(older, 1), parameters.seed)
    drawn = delayed(_replayed, pure=False)
    return night, sum(in_order(workers, [drawn(path, night) for path in histories]))


def _targets(histories: Path, begin: int, train_end: int) -> tuple[int, int]:
    """Events of a target's kind from one moment to another one, and those before."""
    times = _target_times(histories)["time"].to_numpy()
    return int(((times >= begin) & (times < train_end)).sum()), int((times < begin).sum())


def _replayed(histories: Path, night: Night) -> int:
    table = _target_times(histories)
    times, users = (table[name].to_numpy() for name in ("time", "user_key"))
    return int((night.trains(times, users) & (times < night.begin)).sum())


def _target_times(histories: Path) -> pa.Table:
    table = pq.read_table(histories, columns=["user_key", "time", "flags"]).combine_chunks()
    return table.filter(pa.array(table["flags"].to_numpy() & TARGET > 0))


Counted = Mapping[str, pa.Table]
"""By name: columns value, ascending, count, and first and last, the days on which it was first and last seen."""


def count(workers: Workers, histories: Sequence[Path], begin: int | None, train_end: int) -> Counted:
    """Counts users, items and categories of the events from one moment to another one; None is the beginning."""
    task = delayed(_counts, pure=False)
    parts = in_order(workers, [task(path, begin, train_end) for path in histories])
    return {name: _summed(pa.concat_tables([part[name] for part in parts])) for name in NAMES}


def _counts(histories: Path, begin: int | None, train_end: int) -> dict[str, pa.Table]:
    chosen = [("time", "<", train_end), *([("time", ">=", begin)] if begin is not None else [])]
    events = pq.read_table(histories, columns=[*NAMES, "time"], filters=chosen)
    days = pa.array(events["time"].to_numpy() // DAY)
    ones = pa.array(np.ones(len(days), np.int64))
    return {
        name: _summed(pa.table({"value": events[name], "count": ones, "first": days, "last": days})) for name in NAMES
    }


def _summed(seen: pa.Table) -> pa.Table:
    found = seen.group_by("value", use_threads=False).aggregate(list(_SEEN.items()))
    names = ["value" if name == "value" else name.rpartition("_")[0] for name in found.column_names]
    return found.rename_columns(names).select(["value", *_SEEN]).sort_by("value")


def begin(encoder: Encoder, counted: Counted, train_end: int, slack: float) -> dict[str, Living]:
    """The counters of a fitted vocabulary.

    Args:
        slack: free rows, as a share of the values.
    """
    found = {}
    for name, seen in counted.items():
        ids, values = encoder.vocabulary(name)
        capacity = FIRST_ID - 1 + max(math.ceil(len(ids) * (1.0 + slack)), 1)
        living = _seen(Living.empty(np.zeros(0, object)), seen, train_end)
        found[name] = living.with_ids(_objects(values), ids.astype(np.int64), capacity)
    rows = sum(each.capacity - FIRST_ID + 1 for each in found.values())
    free = rows - sum(len(each.by_id()[0]) for each in found.values())
    print(f"a vocabulary with {rows:,} rows, {free:,} of them free")
    return found


def grow(
    encoder: Encoder, earlier: Earlier, counted: Counted, train_end: int, parameters: PreprocessReviews, scratch: Path
) -> tuple[Encoder, dict[str, Living], Turnover]:
    """Tonight's vocabulary.

    Args:
        encoder: of the earlier one.
    """
    rules = Rules(FIRST_ID, parameters.admit_after, parameters.evict_after, parameters.evict_share)
    living, changed, turnovers = {}, {}, []
    for name, seen in counted.items():
        before = read_living(earlier.folder / seen_file(name), _REMEDY, _objects)
        living[name], turnover = _seen(before, seen, train_end).grown(rules)
        changed[name] = _by_id(before) != _by_id(living[name])
        turnovers.append(turnover)
    vocabularies = {}
    for name, each in living.items():
        ids, values = each.by_id()
        vocabularies[name] = ids, pa.array(values, pa.string())
    total = Turnover(sum(each.admitted for each in turnovers), sum(each.evicted for each in turnovers))
    print(f"vocabulary grown: {total.admitted:,} values got a row, {total.evicted:,} lost theirs")
    catalogue = read_catalogue(earlier.folder)
    if catalogue is not None:
        catalogue = _without(catalogue, changed["item"], changed["cat"])
    return encoder_of(vocabularies, scratch, catalogue=catalogue, columns=encoder.columns), living, total


def _seen(living: Living, seen: pa.Table, train_end: int) -> Living:
    counts, first, last = (seen[name].to_numpy() for name in _SEEN)
    return living.seen(_objects(seen["value"]), counts, first, last, (train_end - 1) // DAY)


def _objects(texts: pa.ChunkedArray) -> np.ndarray:
    return np.array(texts.cast(pa.string()).to_pylist(), object)


def _by_id(living: Living) -> np.ndarray:
    """The value of each id, None without one."""
    found = np.full(living.capacity + 1, None, object)
    ids, values = living.by_id()
    found[ids] = values
    return found


def _without(catalogue: np.ndarray, items: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """A catalogue without the categories of items whose id, or whose category's id, stands for another value.

    Args:
        catalogue: category by item id.
        items: bool, by id.
        categories: bool, by id.
    """
    found = catalogue.copy()
    found[items[: len(found)].nonzero()[0]] = NONE
    found[categories[found]] = NONE
    return found


def unknown_share(encoded: Sequence[Path], begin: int, unknown: int) -> float:
    """Share of the events from a moment on whose item has no row.

    Args:
        encoded: files of ``encoding.write_encoded``.
        unknown: the id of such items.
    """
    events = lacking = 0
    for path in encoded:
        table = pq.read_table(path, columns=["item_list", "time_list"]).combine_chunks()
        items, times = (table[name].combine_chunks().flatten().to_numpy() for name in table.column_names)
        newer = items[times >= begin]
        events, lacking = events + len(newer), lacking + int((newer == unknown).sum())
    return lacking / max(events, 1)


def write(living: Mapping[str, Living], output: Path) -> dict[str, int]:
    """Writes the counters; returns the capacities."""
    for name, each in living.items():
        each.write(output / seen_file(name), lambda values: pa.array(values, pa.string()))
    return {name: each.capacity for name, each in living.items()}
