"""Item-kNN: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.feature_spec import Channel
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.optimizers import one_optimizer
from components.models.parameters import OneOptimizer
from components.parameters import param


@dataclass(frozen=True)
class ItemKnnParameters(OneOptimizer):
    """How pairs of items are counted, and where the learned weights start."""

    neighbours: int = param(100, "Nearest items that are kept of an item", unit="items", at_least=1, at_most=10_000)
    pair_distance: int = param(
        10, "Largest distance of two items of a pair in a history; it counts 1 / distance", unit="items", at_least=1
    )
    backward: float = param(
        0.5, "What an item counts as a neighbour of the one after it; 1 ignores the order", at_least=0, at_most=1
    )
    popularity_discount: float = param(
        0.0,
        "Exponent of a neighbour's popularity that its counts are divided by: 0 leaves shares, 0.5 is the cosine",
        at_least=0,
        at_most=1,
    )
    history_decay: float = param(
        0.8,
        "Weight of an item of the history over that of the next newer one, at the start",
        at_least=0.01,
        at_most=0.99,
    )
    lr: float = param(0.05, "Learning rate", at_least=0)


# Every item of a history is counted once.
_ON_HISTORIES = {"negatives": "none", "training_targets": "windows", "max_sequence_length": 50}

MODEL = ModelDefinition(
    name="item_knn",
    title="Item-kNN",
    summary="What other users chose near the items of the history; trains in seconds, for small logs.",
    parameters=ItemKnnParameters,
    build=Lazy("components.models.item_knn.model:ItemKnn"),
    optimizers=one_optimizer,
    dataset="amazon_reviews",
    task="next_item",
    needs=(Channel.POSITIVE,),
    fresh=("counted/",),
    defaults={"epochs": 10, "patience": 3, "global_batch_size": 256},
    dataset_defaults=dict.fromkeys(("amazon_reviews", "events", "movielens"), _ON_HISTORIES),
    retrieves=True,
    # The task's baseline counts pairs as well. Where nothing is above it by more than chance, this model is published.
    is_baseline=True,
)
