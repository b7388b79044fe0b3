"""Parameters that several models declare, with the names and defaults of the public SIM documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.errors import KfrecError
from components.feature_spec import ListLength
from components.parameters import Ints, param

EMBEDDING_DIM = param(16, "Width of one feature's embedding", unit="floats", at_least=1, at_most=4096)
MLP_DIMS = param((200, 80), "Hidden layers of the classifier", at_least=1, at_most=65_536, also="stage_two_mlp_dims")
REPETITION = param(
    False,
    "Give the classifier also how often, and how recently, the target's item and category occur in the history; false "
    "is as published",
)
USER_DROPOUT = param(
    0.0,
    "Share of the training samples whose user becomes unknown, so that the model learns to score new users and "
    "memorises known ones less; 0 is as published",
    at_least=0,
    at_most=0.99,
)
DROPOUT_RATE = param(-1.0, "Dropout of the classifiers' hidden layers; below 0 is none", at_most=0.99)

BATCH_NORMALIZATION = param(
    False, "Normalise the hidden layers before their rectifiers, by the statistics of the global batch"
)
EMBEDDING_L2 = param(
    0.0,
    "Penalty lambda of the embeddings: adds lambda times the squares of a sample's embeddings to its loss, as Keras' "
    "activity regularisation does; ids are held back as often as they occur",
    at_least=0,
)


def check_batch_normalization(parameters: Any, lengths: Mapping[str, ListLength]) -> None:
    """The ``check`` of a model with the parameter ``batch_normalization``.

    Raises:
        KfrecError: several workers would normalise in a step that XLA compiles.
    """
    if parameters.batch_normalization and parameters.xla and getattr(parameters, "workers", 1) > 1:
        raise KfrecError(
            f"parameter xla=True: XLA cannot compile the batch normalisation of workers={parameters.workers}, which "
            "all-reduces; turn xla or batch_normalization off, or train with one worker"
        )


@dataclass(frozen=True)
class OneOptimizer:
    """One optimizer with a constant learning rate for all variables."""

    optimizer: str = param("adam", "Optimizer", choices=("adam", "lazy_adam", "sgd"))
    lr: float = param(0.01, "Learning rate", at_least=0)
    weight_decay: float = param(
        0.0,
        "Fraction of each weight that a step subtracts, independent of the learning rate, as the public SIM's AdamW "
        "and SGDW do; lazy_adam decays only the rows in the batch, where the public SIM's has no decay",
        at_least=0,
        at_most=1,
    )


@dataclass(frozen=True)
class EvolutionParameters(OneOptimizer):
    """Of the models with interest evolution, SIM and DIEN."""

    embedding_dim: int = EMBEDDING_DIM
    aux_mlp_dims: Ints = param((100, 50), "Hidden layers of the auxiliary loss network", at_least=1, at_most=65_536)
    aux_loss_weight: float = param(
        1.0,
        "Weight of the auxiliary loss, the mean of two log losses: of the item that came next and of a sampled one",
        at_least=0,
    )
    aux_loss_padding: bool = param(
        False,
        "Divide the auxiliary loss by all positions, padding included; true and aux_loss_weight=2 are the public "
        "SIM's, which adds the two log losses",
    )
    long_seq_length: int = param(
        90, "Oldest items of a history that form the long history; the rest is the short one", unit="items", at_least=1
    )
    dropout_rate: float = DROPOUT_RATE
    repetition: bool = REPETITION
    user_dropout: float = USER_DROPOUT
