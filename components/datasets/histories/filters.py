"""What the filters of preprocessing leave out of users, events and items.

A user or an item is left out by the filter that leaves out the last of its events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from components.progress import warn

if TYPE_CHECKING:
    from components.datasets.histories.parameters import Sampling

# The filters in the order in which they apply; an event that passes all of them can be a target. FIRST_DAY applies
# where histories end with a day.
OTHER_KIND, SHORT_USER, OTHER_TARGET, FIRST_EVENT, SEEN_ITEM, FIRST_DAY, PASSES = range(7)
# Name, effect and remedy of each, in words; {} is a parameter.
_FILTERS = (
    (
        "kinds",
        "are left out, of neither target_kinds={target_kinds} nor context_kinds={context_kinds}",
        "name more kinds to train on them, too",
    ),
    (
        "shortest_sequence_for_user",
        "are left out by shortest_sequence_for_user={shortest_sequence_for_user}",
        "lower shortest_sequence_for_user to train on them, too",
    ),
    (
        "target_kinds",
        "are no targets by target_kinds={target_kinds}",
        "name more kinds to learn from what these users do, too",
    ),
    ("first_event", "are no targets: their user has no event before them", "give more events of these users"),
    (
        "seen_items",
        "are no targets by seen_items=exclude: their user had the item before",
        "set seen_items=keep where items are chosen again",
    ),
    (
        "first_day",
        "are no targets by history_ends=day: their user has no event on an earlier day",
        "set history_ends=event where lists are made at once",
    ),
)
# Lowest bits of a hash, which tell the filter.
_TAG = 7
# Share of the users that a filter may leave out.
_FEW = 0.2


@dataclass(frozen=True)
class Amount:
    """How much of the data."""

    users: int
    events: int
    items: int

    def __str__(self) -> str:
        return f"{self.users:,} users, {self.events:,} events and {self.items:,} items"


class Filtered:
    """Which filter leaves out each user, event and item.

    Args:
        users: hash of each event's user, int64 ``[events]``.
        items: the same of items.
        filters: of each event, PASSES for one that no filter leaves out.
    """

    def __init__(self, users: np.ndarray, items: np.ndarray, filters: np.ndarray) -> None:
        self._events = np.bincount(filters, minlength=PASSES + 1)
        self._users, self._items = (_last(hashes & ~_TAG | filters) for hashes in (users, items))

    def __add__(self, other: Filtered) -> Filtered:
        """Of other users or not."""
        both = Filtered.__new__(Filtered)
        both._events = self._events + other._events
        both._users, both._items = (
            _last(np.concatenate(pair)) for pair in ((self._users, other._users), (self._items, other._items))
        )
        return both

    def amounts(self) -> list[Amount]:
        """What each filter leaves out, and what passes."""
        users, items = (np.bincount(tagged & _TAG, minlength=PASSES + 1) for tagged in (self._users, self._items))
        columns = (counts.tolist() for counts in (users, self._events, items))
        return [Amount(*each) for each in zip(*columns, strict=True)]


def _last(tagged: np.ndarray) -> np.ndarray:
    """The tagged hash of the last filter of each hash."""
    values = np.unique(tagged)
    is_last = np.append((values[1:] | _TAG) != (values[:-1] | _TAG), True)
    return values[is_last[: len(values)]]


def report(amounts: Sequence[Amount], parameters: Sampling) -> dict[str, dict[str, int]]:
    """Prints what the filters leave out, and warns of one that leaves out many users.

    Args:
        amounts: by filter.
        parameters: of the step, for messages.

    Returns:
        Numbers of users, events and items by filter that leaves out any, for the metadata.
    """
    users = sum(amount.users for amount in amounts)
    told = []
    for (_, effect, remedy), amount in zip(_FILTERS, amounts, strict=False):
        if not amount.events:
            continue
        effect = effect.format_map(vars(parameters))
        told.append(f"{amount} {effect}")
        if amount.users > _FEW * users:
            message = f"data check: {amount.users:,} of {users:,} users {effect}; {remedy}"
            warn("preprocess", "users left out", message)
    print("; ".join([*told, f"{amounts[PASSES]} can be targets"]), flush=True)
    names = [*(name for name, _, _ in _FILTERS), "targets"]
    return {name: asdict(amount) for name, amount in zip(names, amounts, strict=True) if amount.events}


def amounts_of(filtered: Iterable[Filtered]) -> list[Amount]:
    """What each filter leaves out of all partitions, and what passes."""
    return reduce(Filtered.__add__, filtered).amounts()


def without_days(amounts: Sequence[Amount]) -> list[Amount]:
    """The amounts where histories end with an event: what FIRST_DAY leaves out passes."""
    *others, on_first_day, passing = amounts
    both = (on + off for on, off in zip(astuple(on_first_day), astuple(passing), strict=True))
    return [*others, Amount(0, 0, 0), Amount(*both)]
