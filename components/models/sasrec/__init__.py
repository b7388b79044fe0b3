"""SASRec: its parameters, and how it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.errors import KfrecError
from components.feature_spec import Channel, ListLength
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.optimizers import one_optimizer
from components.models.parameters import OneOptimizer
from components.parameters import param

ALL_ITEMS, BATCH = "all_items", "batch"
AUTO, ID_ALONE, CATEGORIES, COLUMNS = "auto", "none", "categories", "columns"


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
    item_features: str = param(
        AUTO,
        "What tells an item beside its id, so that new items can be listed by it: none; categories, whose embeddings "
        "are added to those of their items; or columns, which adds a function of the item_columns of the data, too; "
        "auto is columns where the data have some, and else none",
        choices=(AUTO, ID_ALONE, CATEGORIES, COLUMNS),
    )
    id_dropout: float = param(
        0.3,
        "Share of the items that a training step with item_features knows by these alone",
        at_least=0,
        at_most=0.99,
    )
    history_dropout: float = param(
        0.2,
        "Share of the targets that training tells by known_columns alone, as it does those of new users",
        at_least=0,
        at_most=0.99,
    )
    lr: float = param(0.001, "Learning rate", at_least=0)


def check_parameters(parameters: Any, lengths: Mapping[str, ListLength]) -> None:
    """Requires heads of equal width, and a whole batch where the loss compares its samples.

    Args:
        parameters: ``SasRecParameters`` and those of the train step.

    Raises:
        KfrecError: the heads do not divide the width, or the batch is divided.
    """
    if parameters.item_dim % parameters.attention_heads:
        raise KfrecError(
            f"parameter attention_heads={parameters.attention_heads} does not divide item_dim={parameters.item_dim}; "
            "choose a divisor"
        )
    if parameters.softmax != BATCH:
        return
    if parameters.micro_batch_size:
        raise KfrecError(
            f"parameter softmax={BATCH} compares the samples of a whole batch, which "
            f"micro_batch_size={parameters.micro_batch_size} divides; set micro_batch_size=0, or softmax={ALL_ITEMS}"
        )
    if parameters.xla and getattr(parameters, "workers", 1) > 1:
        raise KfrecError(
            f"parameter xla=True: XLA cannot compile softmax={BATCH} on workers={parameters.workers}, which gathers "
            f"their batches; turn xla off, or set softmax={ALL_ITEMS}"
        )


# Every item of a history is learned from, among all items.
_ON_HISTORIES = {"negatives": "none", "training_targets": "windows", "max_sequence_length": 50}

MODEL = ModelDefinition(
    name="sasrec",
    title="SASRec",
    summary="Self-attention over the history finds the next item among all items; the first stage of a recommender.",
    parameters=SasRecParameters,
    build=Lazy("components.models.sasrec.model:SasRec"),
    optimizers=one_optimizer,
    dataset="amazon_reviews",
    task="next_item",
    check=check_parameters,
    needs=(Channel.POSITIVE,),
    defaults={
        "epochs": 100,
        "patience": 20,
        "global_batch_size": 256,
    },
    dataset_defaults=dict.fromkeys(("amazon_reviews", "events", "movielens"), _ON_HISTORIES),
    retrieves=True,
)
