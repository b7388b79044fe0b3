"""The specification of the samples' columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL
from components.feature_spec import Channel, Feature, FeatureSpec, Vocabulary
from components.feature_spec.vocabulary import vocabulary_file

MISSING_OR_RARE = 0


def specification(sizes: Mapping[str, int], encoding: Mapping[str, Any]) -> FeatureSpec:
    """Builds the specification.

    Args:
        sizes: vocabulary size by column.
        encoding: metadata section ``encoding``.
    """
    features = [
        Feature(LABEL, "bool"),
        *(Feature(name, "float32") for name in NUMERICAL),
        # A column without frequent values still has a table: for 0 and an unused id.
        *(Feature(name, "int64", max(sizes[name], 1)) for name in CATEGORICAL),
    ]
    channels = {Channel.LABEL: (LABEL,), Channel.NUMERICAL: NUMERICAL, Channel.CATEGORICAL: CATEGORICAL}
    vocabularies = [Vocabulary(name, vocabulary_file(name), MISSING_OR_RARE, (name,)) for name in CATEGORICAL]
    noted = {"vocabulary": {each.name: each.to_dict() for each in vocabularies}, "encoding": dict(encoding)}
    return FeatureSpec({feature.name: feature for feature in features}, {}, channels, noted)
