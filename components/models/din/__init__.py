"""DIN: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.feature_spec import Channel
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.optimizers import one_optimizer
from components.models.parameters import DROPOUT_RATE, EMBEDDING_DIM, MLP_DIMS, REPETITION, USER_DROPOUT, OneOptimizer
from components.models.sequences import LOCAL_DEFAULTS, OWN_DEFAULTS, trimmed_histories
from components.parameters import Ints


@dataclass(frozen=True)
class DinParameters(OneOptimizer):
    """Sizes of DIN."""

    embedding_dim: int = EMBEDDING_DIM
    mlp_dims: Ints = MLP_DIMS
    dropout_rate: float = DROPOUT_RATE
    repetition: bool = REPETITION
    user_dropout: float = USER_DROPOUT


MODEL = ModelDefinition(
    name="din",
    title="DIN",
    summary="The history, weighted by how well each item fits the target.",
    parameters=DinParameters,
    build=Lazy("components.models.din.model:Din"),
    optimizers=one_optimizer,
    serving=trimmed_histories,
    needs=(Channel.POSITIVE,),
    dataset="amazon_reviews",
    task="click",
    defaults=OWN_DEFAULTS,
    local_defaults=LOCAL_DEFAULTS,
)
