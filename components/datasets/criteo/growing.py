"""The vocabulary of a column that grows from day to day, with values of 32 bits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from components.artifacts.folder import require_listed
from components.datasets.criteo.columns import CATEGORICAL, write_hexadecimal
from components.datasets.criteo.vocabulary import (
    FIRST_ID,
    Ids,
    hexadecimal,
    read_counts,
    read_ids,
    write_vocabulary,
)
from components.errors import KfrecError
from components.feature_spec.living import Living, Rules, Turnover, read_living, seen_file

_REMEDY = "give an earlier output of this step for this data set, or leave workflow empty"
# The counts of each day that trains, oldest first.
DayCounts = Mapping[int, Sequence[Path]]


def require_growing(folder: Path, location: str) -> int:
    """The last day that an earlier vocabulary counted.

    Args:
        location: of ``folder``, for messages.

    Raises:
        KfrecError: it has no counters, or a file is no part of the artifact.
    """
    if not (folder / seen_file(CATEGORICAL[0])).is_file():
        raise KfrecError(
            f"{location}: its vocabulary has no counters, so it cannot grow; set vocabulary_slack=0 to keep it as it "
            "is, or leave workflow empty to fit one"
        )
    require_listed(folder, map(seen_file, CATEGORICAL))
    return _read(folder, CATEGORICAL[0]).until


def begin(name: str, days: DayCounts, slack: float, lookups: Path, output: Path) -> int:
    """Writes the counters of a fitted vocabulary, that of ``lookups``; returns its capacity.

    Args:
        slack: free rows, as a share of the values.
    """
    fitted = read_ids(lookups, name)
    capacity = max(math.ceil(len(fitted.values) * (1.0 + slack)), FIRST_ID)
    counted = _counted(Living.empty(np.zeros(0, np.uint32)), name, days)
    _write(counted.with_ids(fitted.values, fitted.ids, capacity), output, name)
    return capacity


def grow(name: str, earlier: Path, days: DayCounts, rules: Rules, lookups: Path, output: Path) -> tuple[int, Turnover]:
    """Makes tonight's vocabulary of a column from an earlier one; returns its capacity, and what came and went."""
    living, turnover = _counted(_read(earlier, name), name, days).grown(rules)
    ids, values = living.by_id()
    order = np.argsort(values)
    Ids(values[order], ids[order].astype(np.int32)).write(lookups, name)
    write_vocabulary(name, ids.astype(np.int32), values, output)
    _write(living, output, name)
    return living.capacity, turnover


def _counted(living: Living, name: str, days: DayCounts) -> Living:
    for day, files in days.items():
        counts = read_counts(name, files)
        living = living.counted(counts.values, counts.counts, day)
    return living


def _write(living: Living, output: Path, name: str) -> None:
    living.write(output / seen_file(name), write_hexadecimal)


def _read(folder: Path, name: str) -> Living:
    def numbers(texts: pa.ChunkedArray) -> np.ndarray:
        return np.asarray(hexadecimal(texts))

    return read_living(folder / seen_file(name), _REMEDY, numbers)
