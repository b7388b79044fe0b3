"""Finds a task's kept columns among the features of a data set, and tells the samples of unknown users apart.

Users without training samples share the vocabulary's unknown id. Taken for one user, they would be one cluster of an
interval and one group of a metric, of up to half of the test split.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.tasks.definition import Kept

_SECOND = 2**32 - 1  # the bits of the second item


def kept_features(spec: FeatureSpec, kept: Sequence[Kept]) -> dict[Kept, str]:
    """The features of the columns present in the data."""
    features = {column: _feature(spec, column.channel, column.index) for column in kept}
    return {column: feature for column, feature in features.items() if feature and _serves(spec, column, feature)}


def lists_of(spec: FeatureSpec, column: Kept) -> str:
    """The list feature that counts a column's ids; empty if there is none."""
    lists = _feature(spec, column.occurring_in, column.index)
    return lists if lists and spec.features[lists].length else ""


def histories_of(spec: FeatureSpec, column: Kept) -> str:
    """The list feature that tells the samples of a column's unknown id apart; empty if there is none, or no such id."""
    lists, feature = _feature(spec, column.told_apart_by, 0), _feature(spec, column.channel, column.index)
    known = lists and spec.features[lists].length and spec.vocabulary_of(feature) is not None
    return lists if known else ""


def _feature(spec: FeatureSpec, channel: str, index: int) -> str:
    return next(iter(spec.channels.get(channel, ())[index:]), "")


def _serves(spec: FeatureSpec, column: Kept, feature: str) -> bool:
    """Whether a feature can supply the column: one id per sample, and lists if occurrences are counted."""
    described = spec.features[feature]
    if column.trained and spec.vocabulary_of(feature) is None:
        return False
    if not column.named and not column.occurring_in:
        return True
    one_id = described.cardinality is not None and described.length is None
    return one_id and (not column.occurring_in or bool(lists_of(spec, column)))


def missing_column(spec: FeatureSpec, kept: Sequence[Kept]) -> str:
    """One line about a required column that the data lack; empty if there is none."""
    features = kept_features(spec, kept)
    lacking = [column for column in kept if column.needed_for and column not in features]
    return "; ".join(f"{spec.folder / FILENAME}: {_why_missing(spec, column)}" for column in lacking)


def _why_missing(spec: FeatureSpec, column: Kept) -> str:
    features = spec.channels.get(column.channel)
    if not features:
        return (
            f"channel_spec has no {column.channel}, which {column.needed_for} needs; name the feature, or choose "
            f"with --task a task that needs no {column.channel}"
        )
    if column.index >= len(features):
        return (
            f"the channel {column.channel} has {len(features)} features, and the column {column.name} of the task is "
            f"its feature {column.index} counted from 0, which {column.needed_for} needs; correct the place of the Kept"
        )
    return (
        f"the feature {features[column.index]} is not a single id, as the column {column.name} needs to be for "
        f"{column.needed_for}; correct the channel {column.channel}"
    )


def oldest_two(histories: np.ndarray) -> np.ndarray:
    """A key of the two oldest items of each history, which stay the same while a user's history grows.

    Args:
        histories: ids of items, oldest first, left-padded with 0, ``[n, length]``; with the target as the newest item
            where the user chose it, a user's first sample has both.

    Returns:
        int64 ``[n]``, 0 for an empty history; the lower half is 0 for one of one item.
    """
    rows, length = np.arange(len(histories)), histories.shape[1]
    first = np.argmax(histories != 0, axis=1)
    second = np.where(first + 1 < length, histories[rows, np.minimum(first + 1, length - 1)], 0)
    return histories[rows, first].astype(np.int64) << 32 | second


def told_apart(ids: np.ndarray, unknown: int, keys: np.ndarray) -> np.ndarray:
    """The ids, with another one for each user among the unknown.

    Two samples of unknown users are of one user if their keys are equal; one without a key is of a user of its own. A
    sample of one item, such as the drawn target after a user's first item, goes to one of the users who began with that
    item, in turn: nothing but the item tells its user, so these are alike to any model. Two users who began with the
    same two items are taken for one, and one whose oldest items were cut off for several.

    Args:
        ids: of the users, ``[n]``.
        keys: of ``oldest_two``, ``[n]``.

    Returns:
        int64 ``[n]``; new ids are above all given ones.
    """
    separated, strange = ids.astype(np.int64), ids == unknown
    if strange.any():
        own = np.where(keys == 0, -1 - np.arange(len(keys)), keys)[strange]
        separated[strange] = int(ids.max()) + 1 + np.unique(_with_second(own), return_inverse=True)[1]
    return separated


def _with_second(keys: np.ndarray) -> np.ndarray:
    """Replaces the keys of one item by those of two items with the same first one, in turn, if there are any."""
    single = np.flatnonzero((keys > 0) & (keys & _SECOND == 0))
    whole = np.unique(keys[(keys > 0) & (keys & _SECOND != 0)])
    items = keys[single]
    begin, end = (np.searchsorted(whole, items + after) for after in (0, _SECOND))
    order = np.argsort(items, kind="stable")
    _, starts, counts = np.unique(items[order], return_index=True, return_counts=True)
    turn = np.empty(len(single), np.int64)
    turn[order] = np.arange(len(single)) - np.repeat(starts, counts)
    known = end > begin
    joined = keys.copy()
    joined[single[known]] = whole[(begin + turn % np.maximum(end - begin, 1))[known]]
    return joined
