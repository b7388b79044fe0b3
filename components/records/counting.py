"""The number of samples in each record of a foreign file, inferred from the number of values of one feature."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from components.native.compiled import kernel
from components.records.decoding import ABSENT, MISSING, example
from components.records.framing import FOOTER, HEADER, read_range
from components.records.layout import Layout
from components.records.problems import explain

_WINDOW = 32 << 20


@kernel
def _count_values(data, offsets, fields, scratch, start, found, follows, counts, problem):  # type: ignore[no-untyped-def]
    """Counts the values of the one feature of ``fields`` in each frame of ``data``; returns whether all have it."""
    keys, key_ends, heads, room, _, limits, floats, _ = fields
    for record in range(len(counts)):
        problem[1] = record
        begin = offsets[record] - offsets[0] + HEADER
        end = offsets[record + 1] - offsets[0] - FOOTER
        found[0] = ABSENT
        problem[0] = example(
            data, begin, end, 1, keys, key_ends, heads, room, limits, floats, scratch, start, 0, found, follows, problem
        )
        if problem[0] == 0 and found[0] == ABSENT:
            problem[0] = MISSING
        if problem[0] != 0:
            return False
        counts[record] = found[0]
    return True


def count_samples(path: Path, offsets: np.ndarray, layout: Layout) -> np.ndarray:
    """Samples in each record of a file, int64 [records], by reading it once.

    Args:
        offsets: its index, see ``framing.load_index``.
        layout: of one feature that every sample has.

    Raises:
        KfrecError: a record is not an Example or lacks the feature.
    """
    counts = np.empty(len(offsets) - 1, np.int64)
    if not len(counts):
        return counts
    room = np.array([int(np.diff(offsets).max())])  # a value takes at least one byte
    fields = layout.fields._replace(lengths=room, limits=np.full(1, 2**63 - 1))  # values are checked when decoded
    scratch = np.empty(int(room[0]), np.int32)
    start, found, follows = np.zeros(1, np.int64), np.empty(1, np.int64), np.zeros(2, np.int64)
    problem = np.zeros(5, np.int64)
    with path.open("rb", buffering=0) as file:
        begin = 0
        while begin < len(counts):
            end = max(int(np.searchsorted(offsets, offsets[begin] + _WINDOW, side="right")) - 1, begin + 1)
            part = np.array(offsets[begin : end + 1])
            data = read_range(file.fileno(), path, int(part[0]), int(part[-1] - part[0]))
            if not _count_values(data, part, fields, scratch, start, found, follows, counts[begin:end], problem):
                raise explain(path, begin, layout, problem)
            begin = end
    return np.maximum(counts // int(layout.fields.lengths[0]), 1)
