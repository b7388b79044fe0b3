"""The columns that a task keeps with each score, among the features of a data set."""

from __future__ import annotations

from collections.abc import Sequence

from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.tasks.definition import Kept


def kept_features(spec: FeatureSpec, kept: Sequence[Kept]) -> dict[Kept, str]:
    """The feature of each column that the data have."""
    return {column: spec.channels[column.channel][0] for column in kept if spec.channels.get(column.channel)}


def missing_column(spec: FeatureSpec, kept: Sequence[Kept]) -> str:
    """Which column the data lack and a metric needs, in one line; empty where they lack none."""
    found = kept_features(spec, kept)
    lacking = [column for column in kept if column.needed_for and column not in found]
    return "; ".join(
        f"{spec.folder / FILENAME}: channel_spec has no {column.channel}, which {column.needed_for} needs; name the "
        f"feature, or evaluate with a task that needs no {column.channel}"
        for column in lacking
    )
