"""The newest sample of each user, from samples in any order and without times."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from components.feature_spec import FeatureSpec


class NewestSamples:
    """Keeps one sample of each user while batches pass, the newest.

    A sample's events are its history and, if it is positive, its target. More events are newer. Records hold only the
    newest events of a long history, so two full samples are compared by where the events of one continue those of the
    other. A sample that cannot be told to be newer does not replace an earlier one.
    """

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}
        self._events = np.zeros((0, 0), np.int32)
        self._columns: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._positions)

    def add(self, users: np.ndarray, events: np.ndarray, columns: Mapping[str, np.ndarray] | None = None) -> None:
        """Adds samples.

        Args:
            users: integers ``[n]``.
            events: item ids, oldest first, 0 before shorter histories, ``[n, length + 1]``; see ``events_of``.
            columns: to keep with a sample, ``[n, ...]`` each.
        """
        columns = columns or {}
        left = np.arange(len(users))
        while len(left):  # one sample of each user at a time
            first = np.sort(np.unique(users[left], return_index=True)[1])
            self._update(users[left[first]].tolist(), left[first], events, columns)
            left = np.delete(left, first)

    def _update(
        self, users: list[int], rows: np.ndarray, events: np.ndarray, columns: Mapping[str, np.ndarray]
    ) -> None:
        is_new = np.array([user not in self._positions for user in users], bool)
        for user, new in zip(users, is_new.tolist(), strict=True):
            if new:
                self._positions[user] = len(self._positions)
        positions = np.array([self._positions[user] for user in users], np.int64)
        self._events = _grown(self._events, len(self), events)
        for name, values in columns.items():
            self._columns[name] = _grown(self._columns.get(name, values[:0]), len(self), values)
        newer = is_new.copy()
        held = np.flatnonzero(~is_new)
        newer[held] = is_newer(self._events[positions[held]], events[rows[held]])
        self._events[positions[newer]] = events[rows[newer]]
        for name, values in columns.items():
            self._columns[name][positions[newer]] = values[rows[newer]]

    def keep(self, users: np.ndarray) -> None:
        """Drops all other users."""
        kept = [user for user in users.tolist() if user in self._positions]
        positions = np.array([self._positions[user] for user in kept], np.int64)
        self._events = self._events[positions]
        self._columns = {name: values[positions] for name, values in self._columns.items()}
        self._positions = {user: position for position, user in enumerate(kept)}

    @property
    def users(self) -> np.ndarray:
        """The users, int64 ``[users]``, in the order of their first sample."""
        return np.fromiter(self._positions, np.int64, len(self))

    @property
    def events(self) -> np.ndarray:
        """The events of each user's newest sample, ``[users, length + 1]``."""
        return self._events[: len(self)]

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The kept columns of these samples, by name."""
        return {name: values[: len(self)] for name, values in self._columns.items()}


def choice_label(spec: FeatureSpec) -> str:
    """The label that tells chosen targets, above 0, from drawn ones: the first of the dtype bool, or else the only one.

    Empty if the samples have no labels, as those of retrieval: then all targets are chosen.
    """
    binary = (target.name for target in spec.targets if target.is_bool)
    only = spec.targets[0].name if len(spec.targets) == 1 and spec.targets[0].length is None else ""
    return next(binary, only)


def is_chosen(label: str, batch: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
    """Which samples of a batch have a chosen target, bool ``[rows]``; ``label`` is of ``choice_label``."""
    return batch[label] > 0 if label else np.ones(rows, bool)


def events_of(histories: np.ndarray, targets: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """A sample's events: its history, then its target if that was chosen.

    Args:
        histories: item ids, left-padded with 0, ``[n, length]``.
        targets: item ids, ``[n]``.
        positive: bool, ``[n]``.

    Returns:
        ``[n, length + 1]``, left-padded with 0.
    """
    events = np.zeros((len(histories), histories.shape[1] + 1), histories.dtype)
    events[:, 1:] = histories
    events[positive, :-1] = histories[positive]
    events[positive, -1] = targets[positive]
    return events


def is_newer(held: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether each sample in ``other`` is newer than the one in ``held``; both ``[n, length + 1]``, bool ``[n]``."""
    more = np.count_nonzero(other, 1) - np.count_nonzero(held, 1)
    newer = more > 0
    level = np.flatnonzero((more == 0) & (held != other).any(1))
    if len(level):
        newer[level] = _shift(held[level], other[level]) < _shift(other[level], held[level])
    return newer


def _shift(older: np.ndarray, newer: np.ndarray) -> np.ndarray:
    """The fewest events by which ``newer`` continues ``older``, ``[n]``; the number of columns where it does not."""
    columns = older.shape[1]
    shifts = np.full(len(older), columns)
    for shift in range(columns - 1, 0, -1):
        before, after = older[:, shift:], newer[:, :-shift]
        shared = (before > 0) & (after > 0)
        shifts[shared.any(1) & ((before == after) | ~shared).all(1)] = shift
    return shifts


def _grown(held: np.ndarray, rows: int, like: np.ndarray) -> np.ndarray:
    """An array with room for these rows, twice as large as before if it is too small."""
    if len(held) >= rows and held.shape[1:] == like.shape[1:]:
        return held
    grown = np.zeros((max(rows, 2 * len(held)), *like.shape[1:]), like.dtype)
    if len(held):
        grown[: len(held)] = held
    return grown
