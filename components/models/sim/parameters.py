"""Parameters of SIM."""

from __future__ import annotations

from dataclasses import dataclass

from components.models.parameters import (
    AUX_DIMS,
    AUX_PADDING,
    AUX_WEIGHT,
    DROPOUT_RATE,
    EMBEDDING_DIM,
    LONG_LENGTH,
    OneOptimizer,
)
from components.steps.parameter import Ints, param


@dataclass(frozen=True)
class SimParameters(OneOptimizer):
    """The public SIM documentation's, with its defaults."""

    embedding_dim: int = EMBEDDING_DIM
    stage_one_mlp_dims: Ints = param(
        (200,), "Hidden layers of the general search's classifier", at_least=1, at_most=65_536
    )
    stage_two_mlp_dims: Ints = param((200, 80), "Hidden layers of the classifier", at_least=1, at_most=65_536)
    aux_mlp_dims: Ints = AUX_DIMS
    aux_loss_weight: float = AUX_WEIGHT
    aux_loss_padding: bool = AUX_PADDING
    long_seq_length: int = LONG_LENGTH
    dropout_rate: float = DROPOUT_RATE
