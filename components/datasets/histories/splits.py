"""Which reviews are targets of which split.

``last_item`` tests on each user's last review of a target's kind, as published. ``time`` cuts these reviews at two
moments: reviews before the first one train, those between them validate, those from the second one on test. A sample's
history holds only reviews before its target, so no sample sees a later event.

For a refit all reviews train, and those of the test split also stay in it, to compare the refit with its judged twin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from components.datasets.histories.sorting import SECOND, TARGET
from components.errors import KfrecError

if TYPE_CHECKING:
    from components.datasets.histories.parameters import PreprocessReviews

TRAIN, VALIDATION, TEST = "train", "validation", "test"


@dataclass(frozen=True)
class Cuts:
    """The moments of a split by time, in nanoseconds since 1970.

    Attributes:
        test_begin: reviews from it on test; equal to ``train_end`` without a validation split, and earlier for a refit.
    """

    train_end: int
    test_begin: int


def cuts_by_time(histories: Sequence[Path], parameters: PreprocessReviews, reviews: Path) -> Cuts:
    """The moments that leave the newest shares of the reviews to test and validation.

    Reviews of one time are never separated, so a share may be larger than asked for.

    Raises:
        KfrecError: all reviews before the cut, or all of them, are of one time.
    """
    tables = [pq.read_table(path, columns=["time", "flags"]) for path in histories]
    times = np.sort(np.concatenate([each["time"].to_numpy()[each["flags"].to_numpy() & TARGET > 0] for each in tables]))
    if not len(times):
        raise KfrecError(
            f"{reviews}: no user that is left has an event of the target_kinds; lower "
            f"shortest_sequence_for_user={parameters.shortest_sequence_for_user}"
        )
    test_begin = int(times[int(len(times) * (1 - parameters.test_reviews))])
    if parameters.refitting:
        return Cuts(int(times[-1]) + 1, test_begin)
    earlier = times[: np.searchsorted(times, test_begin)]
    kept = int(len(earlier) * (1 - parameters.validation_reviews))
    train_end = int(earlier[kept]) if kept < len(earlier) else test_begin
    if not len(earlier) or train_end == earlier[0]:
        raise KfrecError(
            f"{reviews}: {len(times)} reviews of the times {_moment(times[0])} to {_moment(times[-1])} leave none "
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
    """

    offsets: np.ndarray
    owner: np.ndarray
    position: np.ndarray
    history: np.ndarray
    times: np.ndarray
    is_new: np.ndarray
    is_target: np.ndarray


@dataclass(frozen=True)
class Targets:
    """The reviews that are targets of one split.

    Attributes:
        split: TRAIN, VALIDATION or TEST.
        cuts: of a split by time; None for the last item of each user.
        only_new: whether a target must be new to the user.
        window: reviews of a user of which only the newest target is kept; 1 keeps all.
        refitting: whether the last item of each user trains, too.
    """

    split: str
    cuts: Cuts | None
    shortest_history: int
    only_new: bool
    window: int = 1
    refitting: bool = False

    def of(self, events: Events) -> np.ndarray:
        """Whether each review is a target: bool [reviews]."""
        chosen = events.is_target & (events.history >= (self.shortest_history if self.split == TRAIN else 1))
        if self.cuts is None:
            places = events.is_target.nonzero()[0]
            owner = events.owner[places]
            is_last = np.zeros(len(chosen), bool)
            is_last[places[owner.searchsorted(owner, side="right") - 1]] = True
            chosen &= is_last if self.split == TEST else ~is_last | self.refitting
        elif self.split == TRAIN:
            chosen &= events.times < self.cuts.train_end
        elif self.split == VALIDATION:
            chosen &= (events.times >= self.cuts.train_end) & (events.times < self.cuts.test_begin)
        else:
            chosen &= events.times >= self.cuts.test_begin
        if self.only_new:
            chosen &= events.is_new
        return chosen & self._is_newest(events, chosen) if self.window > 1 else chosen

    def _is_newest(self, events: Events, chosen: np.ndarray) -> np.ndarray:
        """Whether each review is the newest chosen one of its window; windows count from the user's newest chosen."""
        rows = chosen.nonzero()[0]
        owner, position = events.owner[rows], events.position[rows]
        newest = position[owner.searchsorted(owner, side="right") - 1]
        window = (newest - position) // self.window
        chosen = chosen.copy()
        chosen[rows[:-1]] = (owner[1:] != owner[:-1]) | (window[1:] != window[:-1])
        return chosen
