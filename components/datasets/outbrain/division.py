"""Assigns displays to splits, folds and partitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from components.random_draws import draws

# Streams of random draws.
_SPLIT, _FOLD, _PARTITION = 0, 1, 2


@dataclass(frozen=True)
class Division:
    """Which displays are test samples, and the folds of the others; a function of a display's id and day alone.

    Attributes:
        last_training_day: displays of later days are test samples.
        test_share: share of the other displays that are test samples, too.
        folds: number of training folds; with 1, rates exclude none.
    """

    seed: int
    last_training_day: int
    test_share: float
    folds: int

    def is_test(self, displays: np.ndarray, days: np.ndarray) -> np.ndarray:
        """Whether each display is a test sample: bool [n]."""
        # 53 bits, so that the quotient is exact and below 1
        drawn = (_draw(displays, self.seed, _SPLIT) >> np.uint64(11)).astype(np.float64) / 2.0**53
        return (days > self.last_training_day) | (drawn < self.test_share)

    def fold(self, displays: np.ndarray) -> np.ndarray:
        """The fold of each training display: int64 [n]."""
        return (_draw(displays, self.seed, _FOLD) % np.uint64(self.folds)).astype(np.int64)


def _draw(displays: np.ndarray, seed: int, stream: int) -> np.ndarray:
    zeros = np.zeros(len(displays), np.int64)
    return draws(seed, stream, displays, zeros, zeros, 1)[:, 0]


def display_keys(rows: pa.Table) -> np.ndarray:
    """The key that divides clicks and events into partitions: a hash of the display, int64."""
    return _draw(rows["display_id"].to_numpy(), 0, _PARTITION).view(np.int64)
