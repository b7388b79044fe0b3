"""Parameters of SASRec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from components.errors import KfrecError
from components.feature_spec import ListLength
from components.models.parameters import OneOptimizer
from components.parameters import param

ALL_ITEMS, BATCH = "all_items", "batch"


@dataclass(frozen=True)
class SasRecParameters(OneOptimizer):
    """Sizes of SASRec, and its loss."""

    item_dim: int = param(64, "Width of an item's embedding and of a state", unit="floats", at_least=1, at_most=4096)
    attention_layers: int = param(2, "Layers of self-attention", unit="layers", at_least=1, at_most=48)
    attention_heads: int = param(2, "Attention heads of a layer, which divide item_dim", at_least=1, at_most=64)
    feed_forward_dim: int = param(256, "Hidden layer of a layer's feed-forward network", unit="floats", at_least=1)
    state_dropout: float = param(0.5, "Dropout of embeddings, states and attention weights", at_least=0, at_most=0.99)
    softmax: str = param(
        ALL_ITEMS,
        "What the next item is told from: all_items, or batch, the next items of the global batch, corrected for how "
        "often each occurs, for catalogues of which all_items do not fit into memory",
        choices=(ALL_ITEMS, BATCH),
    )
    lr: float = param(0.001, "Learning rate", at_least=0)


def check_width(parameters: SasRecParameters, lengths: Mapping[str, ListLength]) -> None:
    """Requires heads of equal width.

    Raises:
        KfrecError: the heads do not divide the width.
    """
    if parameters.item_dim % parameters.attention_heads:
        raise KfrecError(
            f"parameter attention_heads={parameters.attention_heads} does not divide item_dim={parameters.item_dim}; "
            "choose a divisor"
        )
