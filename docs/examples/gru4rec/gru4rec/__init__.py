"""GRU4Rec, a retrieval model in a package of its own: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.feature_spec import Channel
from components.lazy import Lazy
from components.models import ModelDefinition
from components.models.optimizers import one_optimizer
from components.models.parameters import OneOptimizer
from components.parameters import param


@dataclass(frozen=True)
class Gru4RecParameters(OneOptimizer):
    """Its optimizer and its width."""

    gru_width: int = param(64, "Width of an item's embedding and of a state", unit="floats", at_least=1)
    lr: float = param(0.005, "Learning rate", at_least=0)


MODEL = ModelDefinition(
    name="gru4rec",
    title="GRU4Rec",
    summary="A recurrence over the history finds the next item among all items.",
    parameters=Gru4RecParameters,
    build=Lazy("gru4rec.model:Gru4Rec"),
    optimizers=one_optimizer,
    dataset="events",
    task="next_item",
    needs=(Channel.POSITIVE,),
    defaults={"epochs": 30, "patience": 5, "global_batch_size": 64},
    # One sample has many items to learn from, and no drawn ones.
    dataset_defaults={"events": {"negatives": "none", "training_targets": "windows", "max_sequence_length": 50}},
    retrieves=True,
)
