"""Which outcome belongs to which served row, and which rows have waited long enough to be labelled.

An outcome belongs to the newest row of its key that was served before it: of its request, row and item, or of its user
and item. It counts if it is no later than the attribution window after that row. A row is mature once the window and
the wait for late arrivals are over; then it has the largest label of its outcomes, or 0 without one. Labelling a row as
soon as its outcome is there would take positives before negatives, and make every rate too high.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from components.feedback.outcomes import ITEM, LABEL, REQUEST, ROW, TIME, UNTIMED, USER

_HOUR = 3_600_000_000


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
    told = Counts(
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
    return np.where(matured, np.nan_to_num(labels), np.nan), told


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
