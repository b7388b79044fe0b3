"""Parameters of DIN."""

from __future__ import annotations

from dataclasses import dataclass

from components.models.parameters import DROPOUT_RATE, EMBEDDING_DIM, MLP_DIMS, REPETITION, USER_DROPOUT, OneOptimizer
from components.parameters import Ints


@dataclass(frozen=True)
class DinParameters(OneOptimizer):
    """Sizes of DIN."""

    embedding_dim: int = EMBEDDING_DIM
    mlp_dims: Ints = MLP_DIMS
    dropout_rate: float = DROPOUT_RATE
    repetition: bool = REPETITION
    user_dropout: float = USER_DROPOUT
