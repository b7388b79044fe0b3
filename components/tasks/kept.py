"""Finds a task's kept columns among the features of a data set."""

from __future__ import annotations

from collections.abc import Sequence

from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.tasks.definition import Kept


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
