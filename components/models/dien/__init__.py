"""DIEN: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.feature_spec import Channel
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.optimizers import one_optimizer
from components.models.parameters import MLP_DIMS, EvolutionParameters
from components.models.sequences import LOCAL_DEFAULTS, OWN_DEFAULTS, check_histories, trimmed_histories
from components.parameters import Ints


@dataclass(frozen=True)
class DienParameters(EvolutionParameters):
    """Sizes of DIEN."""

    mlp_dims: Ints = MLP_DIMS


MODEL = ModelDefinition(
    name="dien",
    title="DIEN",
    summary="The interest is where a recurrence over the newest items ends.",
    parameters=DienParameters,
    build=Lazy("components.models.dien.model:Dien"),
    optimizers=one_optimizer,
    serving=trimmed_histories,
    needs=(Channel.POSITIVE, Channel.NEGATIVE),
    dataset="amazon_reviews",
    task="click",
    check=check_histories,
    defaults=OWN_DEFAULTS,
    local_defaults=LOCAL_DEFAULTS,
)
