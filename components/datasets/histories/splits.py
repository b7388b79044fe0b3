"""Which reviews are targets of which split.

``last_item`` tests on each user's last review of a target's kind, as published. ``last_two_items`` does, too, and
validates on the one before, which never trains; it tests no item that only last reviews have. ``time`` cuts these
reviews at two moments: reviews before the first one train, those between them validate, those from the second one on
test. A sample's history holds only reviews before its target, so no sample sees a later event.

For a refit all reviews train, and those of the test split also stay in it, to compare the refit with its judged twin.

On a night that continues an earlier training only reviews since the end of that one are divided. Those before it are
the histories of these, and a share of them trains once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from components.datasets.histories.sorting import DAY, SECOND, TARGET
from components.errors import KfrecError
from components.random_draws import draws

if TYPE_CHECKING:
    from components.datasets.histories.parameters import PreprocessReviews

TRAIN, VALIDATION, TEST = "train", "validation", "test"
# The stream of the draws of what is replayed, beside those of the negatives of the splits.
_STREAM = 3
_EPOCH = 1 << 20  # makes the days before 1970 positive


@dataclass(frozen=True)
class Cuts:
    """The moments of a split by time, in nanoseconds since 1970.

    Attributes:
        test_begin: reviews from it on test; equal to ``train_end`` without a validation split, and earlier for a refit.
    """

    train_end: int
    test_begin: int


@dataclass(frozen=True)
class Night:
    """What trains on a night that continues an earlier training.

    Attributes:
        begin: the end of the earlier training, in nanoseconds since 1970; reviews from it on train.
        replayed: share of the earlier reviews that train once more, drawn by user and day (UTC).
    """

    begin: int
    replayed: float
    seed: int

    def trains(self, times: np.ndarray, users: np.ndarray) -> np.ndarray:
        """Whether reviews train, bool ``[n]``.

        Args:
            times: int64 ``[n]``, nanoseconds since 1970.
            users: int64 ``[n]``, keys.
        """
        days = times // DAY + _EPOCH
        night = np.full(len(times), self.begin // DAY + _EPOCH)
        drawn = draws(self.seed, _STREAM, users, days, night, 1)[:, 0] >> np.uint64(11)
        return (times >= self.begin) | (drawn * 2.0**-53 < self.replayed)


def cuts_by_time(
    histories: Sequence[Path], parameters: PreprocessReviews, reviews: Path, begin: int | None = None
) -> Cuts:
    """The moments that leave the newest shares of the reviews to test and validation.

    Reviews of one time are never separated, so a share may be larger than asked for.

    Args:
        begin: divide only reviews from this moment on, in nanoseconds since 1970; None divides all.

    Raises:
        KfrecError: all reviews before the cut, or all of them, are of one time; or none is of ``begin`` or later.
    """
    tables = [pq.read_table(path, columns=["time", "flags"]) for path in histories]
    times = np.sort(np.concatenate([each["time"].to_numpy()[each["flags"].to_numpy() & TARGET > 0] for each in tables]))
    if not len(times):
        raise KfrecError(
            f"{reviews}: no user that is left has an event of the target_kinds; lower "
            f"shortest_sequence_for_user={parameters.shortest_sequence_for_user}"
        )
    if begin is not None:
        newest, times = times[-1], times[times >= begin]
        if not len(times):
            raise KfrecError(
                f"{reviews}: the newest event is of {_moment(newest)}, and workflow has trained on all events before "
                f"{_moment(begin)}; give the events since then"
            )
    test_begin = int(times[int(len(times) * (1 - parameters.test_reviews))])
    if parameters.refitting:
        return Cuts(int(times[-1]) + 1, test_begin)
    earlier = times[: np.searchsorted(times, test_begin)]
    kept = int(len(earlier) * (1 - parameters.validation_reviews))
    train_end = int(earlier[kept]) if kept < len(earlier) else test_begin
    if not len(earlier) or train_end == earlier[0]:
        raise KfrecError(
            f"{reviews}: {len(times)} events of the times {_moment(times[0])} to {_moment(times[-1])} leave none "
            f"before the cut for training; lower test_reviews={parameters.test_reviews:g} and "
            f"validation_reviews={parameters.validation_reviews:g}, or set split=last_item"
        )
    return Cuts(train_end, test_begin)


def _moment(nanoseconds: int) -> str:
    return f"{datetime.fromtimestamp(int(nanoseconds) // SECOND, UTC):%Y-%m-%d %H:%M}"


@dataclass(frozen=True)
class Events:
    """The reviews of some users, user by user, oldest first.

    Attributes:
        offsets: int64 [users + 1], the first review of each user.
        owner: int64 [reviews], the user of each review.
        position: int64 [reviews], its place among the user's reviews.
        history: int64 [reviews], how many items its history has.
        times: int64 [reviews], nanoseconds since 1970.
        is_new: bool [reviews], whether no history before it has the item.
        is_target: bool [reviews], whether its kind is one of targets.
        is_known: bool [reviews], whether the vocabulary has its item.
    """

    offsets: np.ndarray
    owner: np.ndarray
    position: np.ndarray
    history: np.ndarray
    times: np.ndarray
    is_new: np.ndarray
    is_target: np.ndarray
    is_known: np.ndarray


# Why a review of a split is no target, in the order of the reasons, and in words.
LEFT_OUT = {
    "first_event": "without an event of the user before",
    "seen_item": "of items that the user had before",
    "unknown_item": "of items that nobody chose before the last events",
}


@dataclass(frozen=True)
class Targets:
    """The reviews that are targets of one split.

    Attributes:
        split: TRAIN, VALIDATION or TEST.
        cuts: of a split by time; None for the last items of each user.
        only_new: whether a target must be new to the user.
        window: reviews of a user of which only the newest target is kept; 1 keeps all.
        refitting: whether the last items of each user train, too.
        held_out: the last targets of each user that do not train, if they are not split by time.
        only_known: whether a target of the test must be in the vocabulary.
    """

    split: str
    cuts: Cuts | None
    shortest_history: int
    only_new: bool
    window: int = 1
    refitting: bool = False
    held_out: int = 1
    only_known: bool = False

    def of(self, events: Events, trains: np.ndarray | None = None) -> np.ndarray:
        """Whether each review is a target: bool [reviews].

        Args:
            trains: bool [reviews], see ``Night``; None if all do.
        """
        chosen = self._of_split(events) & (events.history >= (self.shortest_history if self.split == TRAIN else 1))
        if trains is not None:
            chosen &= trains
        if self.only_new:
            chosen &= events.is_new
        if self.only_known and self.split == TEST:
            chosen &= events.is_known
        return chosen & self._is_newest(events, chosen) if self.window > 1 else chosen

    def within(self, times: np.ndarray) -> np.ndarray:
        """Whether moments are in the split, bool ``[n]``; all are in one that is not by time.

        Args:
            times: int64 ``[n]``, nanoseconds since 1970.
        """
        if self.cuts is None:
            return np.ones(len(times), bool)
        if self.split == TRAIN:
            return times < self.cuts.train_end
        if self.split == VALIDATION:
            return (times >= self.cuts.train_end) & (times < self.cuts.test_begin)
        return times >= self.cuts.test_begin

    def left_out(self, events: Events) -> np.ndarray:
        """How many reviews of the split each reason of ``LEFT_OUT`` keeps from being targets: int64 [reasons]."""
        of_split = self._of_split(events)
        reasons = [events.history < 1, ~events.is_new & self.only_new, ~events.is_known & self.only_known]
        first = np.select(reasons, range(len(reasons)), len(reasons))
        return np.bincount(first[of_split], minlength=len(reasons) + 1)[: len(reasons)]

    def _of_split(self, events: Events) -> np.ndarray:
        """Whether each review is of a target's kind and of the split: bool [reviews]."""
        if self.cuts is None:
            places = events.is_target.nonzero()[0]
            owner = events.owner[places]
            # Targets of the user after each target.
            later = owner.searchsorted(owner, side="right") - 1 - np.arange(len(owner))
            chosen = np.zeros(len(events.owner), bool)
            chosen[places] = (
                (later >= self.held_out) | self.refitting
                if self.split == TRAIN
                else later == (self.split == VALIDATION)
            )
            return chosen
        return events.is_target & self.within(events.times)

    def _is_newest(self, events: Events, chosen: np.ndarray) -> np.ndarray:
        """Whether each review is the newest chosen one of its window; windows count from the user's newest chosen."""
        rows = chosen.nonzero()[0]
        owner, position = events.owner[rows], events.position[rows]
        newest = position[owner.searchsorted(owner, side="right") - 1]
        window = (newest - position) // self.window
        chosen = chosen.copy()
        chosen[rows[:-1]] = (owner[1:] != owner[:-1]) | (window[1:] != window[:-1])
        return chosen
