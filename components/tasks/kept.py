"""The columns that a task keeps with each score, among the features of a data set."""

from __future__ import annotations

from collections.abc import Sequence

from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.tasks.definition import Kept


def kept_features(spec: FeatureSpec, kept: Sequence[Kept]) -> dict[Kept, str]:
    """The feature of each column that the data have."""
    found = {column: _feature(spec, column.channel, column.place) for column in kept}
    return {column: feature for column, feature in found.items() if feature and _serves(spec, column, feature)}


def lists_of(spec: FeatureSpec, column: Kept) -> str:
    """The feature in whose lists the ids of a column are counted; empty where there is none."""
    lists = _feature(spec, column.occurring_in, column.place)
    return lists if lists and spec.features[lists].length else ""


def _feature(spec: FeatureSpec, channel: str, place: int) -> str:
    return next(iter(spec.channels.get(channel, ())[place:]), "")


def _serves(spec: FeatureSpec, column: Kept, feature: str) -> bool:
    """Whether a feature has what is kept of it: one id a sample, and lists where it is counted in them."""
    described = spec.features[feature]
    if not column.named and not column.occurring_in:
        return True
    one_id = described.cardinality is not None and described.length is None
    return one_id and (not column.occurring_in or bool(lists_of(spec, column)))


def missing_column(spec: FeatureSpec, kept: Sequence[Kept]) -> str:
    """Which column the data lack and a metric needs, in one line; empty where they lack none."""
    found = kept_features(spec, kept)
    lacking = [column for column in kept if column.needed_for and column not in found]
    return "; ".join(
        f"{spec.folder / FILENAME}: channel_spec has no {column.channel}, which {column.needed_for} needs; name the "
        f"feature, or evaluate with a task that needs no {column.channel}"
        for column in lacking
    )
