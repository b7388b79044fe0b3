"""What the definitions of SIM, DIN and DIEN share."""

from __future__ import annotations

from components.feature_spec import Channel, FeatureSpec
from components.models.parameters import OneOptimizer

_STATES = {"sgd": 0}


def training_bytes(parameters: OneOptimizer, spec: FeatureSpec) -> int:
    """Memory of the embedding tables and the moments of their optimizer, in bytes."""
    named = {name for channel in (Channel.USER, Channel.TARGET) for name in spec.channels.get(channel, ())}
    rows = sum((spec.features[name].cardinality or 0) + 1 for name in named)
    width: int = parameters.embedding_dim  # type: ignore[attr-defined]
    return 4 * rows * width * (1 + _STATES.get(parameters.optimizer, 2))
