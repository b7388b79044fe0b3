"""The specification of the samples' columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL
from components.feature_spec import Channel, Feature, FeatureSpec, Vocabulary

# Folder of the columns' values.
VOCABULARY = "vocabulary"
MISSING_OR_RARE = 0


def specification(sizes: Mapping[str, int], encoding: Mapping[str, Any]) -> FeatureSpec:
    """Makes it.

    Args:
        sizes: kept values by column.
        encoding: what is noted of how the values were encoded.
    """
    features = [
        Feature(LABEL, "bool"),
        *(Feature(name, "float32") for name in NUMERICAL),
        # A column without a frequent value has a table all the same: of 0 and an id that does not occur.
        *(Feature(name, "int64", max(sizes[name], 1)) for name in CATEGORICAL),
    ]
    channels = {Channel.LABEL: (LABEL,), Channel.NUMERICAL: NUMERICAL, Channel.CATEGORICAL: CATEGORICAL}
    vocabularies = [Vocabulary(name, f"{VOCABULARY}/{name}.parquet", MISSING_OR_RARE, (name,)) for name in CATEGORICAL]
    noted = {"vocabulary": {each.name: each.to_dict() for each in vocabularies}, "encoding": dict(encoding)}
    return FeatureSpec({feature.name: feature for feature in features}, {}, channels, noted)
