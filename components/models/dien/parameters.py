"""Parameters of DIEN."""

from __future__ import annotations

from dataclasses import dataclass

from components.models.parameters import (
    AUX_DIMS,
    AUX_PADDING,
    AUX_WEIGHT,
    DROPOUT_RATE,
    EMBEDDING_DIM,
    LONG_LENGTH,
    MLP_DIMS,
    OneOptimizer,
)
from components.steps.parameter import Ints


@dataclass(frozen=True)
class DienParameters(OneOptimizer):
    """Sizes of DIEN."""

    embedding_dim: int = EMBEDDING_DIM
    mlp_dims: Ints = MLP_DIMS
    aux_mlp_dims: Ints = AUX_DIMS
    aux_loss_weight: float = AUX_WEIGHT
    aux_loss_padding: bool = AUX_PADDING
    long_seq_length: int = LONG_LENGTH
    dropout_rate: float = DROPOUT_RATE
