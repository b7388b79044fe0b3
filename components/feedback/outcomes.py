"""Outcomes: what users did with what they were shown, by request or by user, item and time; and whose rows they are.

An outcome belongs to the newest row of its key that was served before it: of its request, row and item, or of its user
and item. It counts if it is no later than the attribution window after that row. A row is mature once the window and
the wait for late arrivals are over; then it has the largest label of its outcomes, or 0 without one. Labelling a row as
soon as its outcome is there would take positives before negatives, and make every rate too high.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from components.errors import KfrecError
from components.inference.formats import format_of, has_format, rows_file
from components.storage import Retry, Store, fetch_file, is_uri, open_store
from components.workflows.times import Times
from components.workflows.values import DEFAULT_MISSING, numbers, texts

REQUEST, ROW, USER, ITEM, TIME, LABEL = "request_id", "row", "user", "item", "time", "label"
# The time of an outcome of a request that has none: later than any served row, and within its window.
UNTIMED = np.iinfo(np.int64).max
_ROWS = 65_536
_RETRY = Retry(5)
_WANTED = f"give {REQUEST}, and {ROW} or {ITEM} where a request has several; or {USER}, {ITEM} and {TIME}"
_HOUR = 3_600_000_000


def read_outcomes(location: str, scratch: Path) -> pd.DataFrame:
    """Outcomes in a file, or in the files of a folder or prefix.

    Args:
        location: parquet, CSV or JSON lines, with the columns ``request_id``, or ``user``, ``item`` and ``time``;
            optional are ``label`` (1 without it), and of a request ``row`` (0 without it), ``item`` and ``time``.
        scratch: an empty folder for fetched files.

    Returns:
        The columns request_id, row, user, item, time (microseconds since 1970, or UNTIMED) and label, null where a
        file does not have them.

    Raises:
        KfrecError: a file lacks columns, or a value is invalid.
    """
    if not location.strip():
        raise KfrecError("parameter outcomes is empty; give a file, folder or prefix with outcomes")
    store, names = outcome_files(location)
    tables = []
    for name in names:
        with local_outcomes(store, name, scratch) as (path, shown):
            first = 0
            for batch in rows_file(path).batches(_ROWS):
                tables.append(_table(shown, batch, first))
                first += len(batch)
    if not tables:
        raise KfrecError(f"{location}: no outcomes in it; give files with rows")
    return pd.concat(tables, ignore_index=True)


def _table(shown: str, batch: pa.RecordBatch, first: int) -> pd.DataFrame:
    names = batch.schema.names
    by_request = REQUEST in names
    if not by_request and not {USER, ITEM, TIME} <= set(names):
        raise KfrecError(f"{shown}: has the columns {', '.join(names)}; {_WANTED}")
    made = pd.DataFrame(index=range(len(batch)))
    for name in (REQUEST, USER, ITEM):
        made[name] = texts(batch[name], DEFAULT_MISSING).to_pandas() if name in names else None
        if name in ((REQUEST,) if by_request else (USER, ITEM)) and made[name].isna().any():
            row = int(np.argmax(made[name].isna()))
            raise KfrecError(f"{shown}: row {first + row + 1} has no {name}; {_WANTED}")
    made[ROW] = _number(shown, batch, ROW, 0.0, first).astype(np.int64)
    made[LABEL] = _number(shown, batch, LABEL, 1.0, first)
    if not (allowed := made[LABEL].isin((0, 1))).all():
        row = int(np.argmin(allowed))
        raise KfrecError(f"{shown}: row {first + row + 1}: {LABEL} is {made[LABEL][row]:g}; give 0 or 1")
    made[TIME] = _times(shown, batch, first, by_request) if TIME in names else UNTIMED
    return made


def _number(shown: str, batch: pa.RecordBatch, name: str, default: float, first: int) -> np.ndarray:
    if name not in batch.schema.names:
        return np.full(len(batch), default)
    column = batch[name].cast(pa.int8()) if pa.types.is_boolean(batch[name].type) else batch[name]
    values, wrong = numbers(column, DEFAULT_MISSING)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise KfrecError(f"{shown}: row {first + row + 1}: {name} is {batch[name][row].as_py()!r}; give a number")
    return np.where(np.isnan(values), default, values)


def _times(shown: str, batch: pa.RecordBatch, first: int, may_lack: bool) -> np.ndarray:
    times = Times(TIME, "", shown, "with the year first")
    ticks, wrong = times.read(batch[TIME], DEFAULT_MISSING)
    missing = np.isnan(ticks) & ~wrong
    if times.are_days:
        raise KfrecError(f"{shown}: column {TIME} holds days as YYYYMMDD; give the time of day, too")
    if (unknown := wrong | (missing & (not may_lack))).any():
        row = int(np.argmax(unknown))
        value = batch[TIME][row].as_py()
        raise KfrecError(f"{shown}: row {first + row + 1}: {TIME} is {value!r}; give a time, such as 2026-11-28 20:00")
    made = np.full(len(batch), UNTIMED)
    made[~missing] = np.round(ticks[~missing] * (1_000_000 / times.per_second))
    return made


def outcome_files(location: str) -> tuple[Store, list[str]]:
    if has_format(location) and not Path(location).is_dir():
        if not is_uri(location) and not Path(location).is_file():
            raise KfrecError(f"{location}: no such file; check the path")
        folder, _, name = location.rpartition("/")
        return open_store(folder or ("/" if location.startswith("/") else ".")), [name]
    store = open_store(location)
    names = [name for name in _RETRY.call(location, store.names) or () if has_format(name)]
    if not names:
        raise KfrecError(f"{location}: holds no *.parquet, *.csv or *.jsonl; give a file, folder or prefix of outcomes")
    return store, names


@contextmanager
def local_outcomes(store: Store, name: str, scratch: Path) -> Iterator[tuple[Path, str]]:
    """The file on this machine, and its name for messages."""
    path = store.path(name)
    if path is not None:
        yield path, str(path)
        return
    scratch.mkdir(parents=True, exist_ok=True)
    fetched = scratch / f"outcomes{format_of(name)}"
    try:
        fetch_file(store, _RETRY, _RETRY.call(store.url(name), store.stat, name), fetched)
        yield fetched, store.url(name)
    finally:
        fetched.unlink(missing_ok=True)


@dataclass(frozen=True)
class Counts:
    """What became of rows and outcomes.

    Attributes:
        waiting: served rows whose window or wait is not over.
        attributed: outcomes that count, duplicates among them.
        duplicates: further outcomes of a row that has one.
        late: outcomes after the window of their row.
        unmatched: outcomes of no served row.
        early: outcomes of a request with a time before it, from a clock that is behind; they are attributed.
        future: outcomes after the time up to which they are read.
    """

    served: int
    matured: int
    waiting: int
    outcomes: int
    attributed: int
    duplicates: int
    late: int
    unmatched: int
    early: int
    future: int


def attribute(
    served: pd.DataFrame, outcomes: pd.DataFrame, *, window: float, wait: float, now: int
) -> tuple[np.ndarray, Counts]:
    """Labels of served rows.

    Args:
        served: request_id, row, user, item, rank (null for scored rows) and time, in microseconds since 1970.
        outcomes: of ``components.feedback.outcomes.read_outcomes``.
        window: attribution window, in hours.
        wait: for late arrivals after the window, in hours.
        now: microseconds since 1970; later outcomes are not read.

    Returns:
        0 or 1, float64 ``[rows]``, NaN for a row that waits; and the counts.
    """
    known = outcomes[(outcomes[TIME] <= now) | (outcomes[TIME] == UNTIMED)].reset_index(drop=True)
    times = served[TIME].to_numpy()
    place, early = np.full(len(known), -1), np.zeros(len(known), bool)
    is_list = served["rank"].notna().to_numpy()
    by_request = known[REQUEST].notna().to_numpy()
    of_list = by_request & known[ITEM].notna().to_numpy()
    for rows, wanted, key in (
        (is_list, of_list, [REQUEST, ROW, ITEM]),
        (~is_list, by_request, [REQUEST, ROW]),
        (np.ones(len(served), bool), ~by_request, [USER, ITEM]),
    ):
        left = wanted & (place < 0)
        place[left] = _newest(served[rows], known[left], key, "backward")
        if REQUEST in key:
            left &= place < 0
            place[left] = _newest(served[rows], known[left], key, "forward")
            early[left] = place[left] >= 0
    found = place >= 0
    delay = np.where(found & (known[TIME] != UNTIMED), known[TIME] - times[np.maximum(place, 0)], 0)
    counts = found & (delay <= window * _HOUR)
    labels = np.full(len(served), np.nan)
    np.fmax.at(labels, place[counts], known[LABEL].to_numpy()[counts])
    matured = times + (window + wait) * _HOUR <= now
    attributed = int(counts.sum())
    counted = Counts(
        served=len(served),
        matured=int(matured.sum()),
        waiting=int((~matured).sum()),
        outcomes=len(outcomes),
        attributed=attributed,
        duplicates=attributed - len(np.unique(place[counts])),
        late=int((found & ~counts).sum()),
        unmatched=int((~found).sum()),
        early=int(early.sum()),
        future=len(outcomes) - len(known),
    )
    return np.where(matured, np.nan_to_num(labels), np.nan), counted


def _newest(served: pd.DataFrame, outcomes: pd.DataFrame, key: list[str], direction: str) -> np.ndarray:
    """The place of each outcome's row: the last one of its key at or before it, or the first one after it; else -1."""
    if not len(served) or not len(outcomes):
        return np.full(len(outcomes), -1)
    every = pd.concat([served[key], outcomes[key]])
    codes = every.groupby(key, sort=False).ngroup().to_numpy()  # -1 with a null in the key
    rows = pd.DataFrame({"key": codes[: len(served)], TIME: served[TIME].to_numpy(), "place": served.index})
    wanted = pd.DataFrame({"key": codes[len(served) :], TIME: outcomes[TIME].to_numpy(), "order": range(len(outcomes))})
    pairs = pd.merge_asof(
        wanted[wanted["key"] >= 0].sort_values(TIME, kind="stable"),
        rows[rows["key"] >= 0].sort_values(TIME, kind="stable"),
        on=TIME,
        by="key",
        direction=direction,
    )
    place = np.full(len(outcomes), -1)
    place[pairs["order"]] = pairs["place"].fillna(-1)
    return place
