"""The lengths of lists that the samples do not declare: that of the longest list of each group, over all splits."""

from __future__ import annotations

from collections.abc import Sequence

from components.errors import KfrecError
from components.progress import progress
from components.tfrecord.parallel import in_order
from components.tfrecord.row_groups import RowGroup
from components.tfrecord.samples import longest_list
from components.tfrecord.schema import Column


def length_by_footers(groups: Sequence[RowGroup], columns: Sequence[Column]) -> dict[str, int] | None:
    """The lengths, if the footers suggest that all lists of a group are equally long; nothing is read.

    Footers only count the values of a row group, so a longer list may still occur among shorter ones.
    """
    lengths = {}
    for column in columns:
        if column.is_list and column.length is None:
            means = {group.values[column.index] / group.rows for group in groups if group.rows}
            if len(means) != 1 or not (mean := means.pop()).is_integer():
                return None
            lengths[column.group] = int(mean)
    return lengths


def length_by_reading(groups: Sequence[RowGroup], columns: Sequence[Column], workers: int) -> dict[str, int]:
    """The lengths, from every list of one feature of each group.

    Raises:
        KfrecError: a list is empty in every row.
    """
    columns = [column for column in columns if column.length is None]
    lengths: dict[str, int] = {}
    with progress("measuring histories", sum(group.rows for group in groups), "samples") as bar:
        longest = in_order(lambda group: longest_list(group, columns), groups, workers)
        for group, longest_here in zip(groups, longest, strict=True):
            for channel, length in longest_here.items():
                lengths[channel] = max(lengths.get(channel, 0), length)
            bar.advance(group.rows)
    for channel, length in lengths.items():
        if not length:
            raise KfrecError(
                f"{groups[0].path.parent.parent}: every {channel} is empty; nothing can be learned from it"
            )
    return lengths
