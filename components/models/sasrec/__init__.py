"""SASRec: its parameters, and how it is built."""

from __future__ import annotations

from components.feature_spec import Channel
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.optimizers import one_optimizer
from components.models.sasrec.parameters import SasRecParameters, check_parameters

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
