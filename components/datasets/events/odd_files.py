"""What is odd about single files of events: no rows, swapped columns, times that no event has."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.checks.samples import ValueSample, hashes_of, largest_hash
from components.datasets.histories.sorting import SECOND
from components.progress import warn
from components.workflows.tables import is_empty, warn_of_empty

_SAMPLED_IDS = 4096
# Seconds since 1970 of 1985; earlier times are mostly defaults such as 0.
_FIRST = 5e8
_DAY = 86_400


def with_content(tables: Sequence[Path]) -> list[Path]:
    """The files that are not empty; all of them if none has content."""
    return [path for path in tables if not is_empty(path)] or list(tables)


class OddFiles:
    """Collects facts about files, in memory that does not grow with their size."""

    def __init__(self, tables: Sequence[Path]) -> None:
        self._rows = dict.fromkeys(tables, 0)
        self._ids: dict[Path, tuple[ValueSample, ValueSample]] = {}
        self._early: dict[Path, int] = {}
        self._late: dict[Path, tuple[int, int]] = {}

    def add(self, table: Path, events: pa.Table) -> None:
        """Takes events of a file, of the schema ``EVENT``."""
        self._rows[table] += len(events)
        samples = self._ids.setdefault(table, (ValueSample(_SAMPLED_IDS), ValueSample(_SAMPLED_IDS)))
        for sample, name in zip(samples, ("reviewerID", "asin"), strict=True):
            sample.add(hashes_of(events[name]))
        times = events["unixReviewTime"].to_numpy()
        late = times[times > (time.time() + _DAY) * SECOND]
        if len(late):
            count, latest = self._late.get(table, (0, 0))
            self._late[table] = count + len(late), max(latest, int(late.max()))
        self._early[table] = self._early.get(table, 0) + int(np.count_nonzero(times < _FIRST * SECOND))

    def warn(self) -> None:
        """Says what was found, with the files' names."""
        warn_of_empty([path for path, rows in self._rows.items() if not rows], len(self._rows))
        for path, (count, latest) in self._late.items():
            share = f"{count:,} of {self._rows[path]:,} events"
            warn(
                "preprocess",
                f"times of {path.name}",
                f"{path.name}: {share} are after today, up to {datetime.fromtimestamp(latest / SECOND, UTC):%Y-%m-%d}; "
                "correct or remove them, a split by time takes them for the newest",
            )
        if 2 * sum(self._early.values()) < sum(self._rows.values()):
            for path, count in self._early.items():
                if count:
                    message = (
                        f"{path.name}: {count:,} of {self._rows[path]:,} events are before 1985; correct their times"
                    )
                    warn("preprocess", f"times of {path.name}", message)
        for path, known in self._swapped():
            warn(
                "preprocess",
                f"columns of {path.name}",
                f"{path.name}: none of its users is a user in the other files, and {known:.0%} are items there; are "
                "its columns of users and items swapped?",
            )

    def _swapped(self) -> Iterator[tuple[Path, float]]:
        """The files whose users are items in the others, and the share of them."""
        samples = [sample for pair in self._ids.values() for sample in pair]
        for sample in samples:
            sample.merge_pending()
        last = largest_hash(max((sample.level for sample in samples), default=0))
        users, items = (
            {path: pair[role].values[pair[role].values <= last] for path, pair in self._ids.items()} for role in (0, 1)
        )
        of_files = [np.unique(np.concatenate([*ids.values(), []]), return_counts=True) for ids in (users, items)]
        for path, own in users.items():
            (known, counts), (of_items, item_counts) = of_files
            in_other_users = np.isin(own, known[counts > 1])
            # An item of this file alone is none of the others'.
            others = of_items[item_counts > np.isin(of_items, items[path])]
            share = float(np.isin(own, others).mean()) if len(own) else 0.0
            if share > 0.5 and not in_other_users.any():
                yield path, share
