"""SIM: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.feature_spec import Channel
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.optimizers import one_optimizer
from components.models.parameters import EvolutionParameters
from components.models.sequences import LOCAL_DEFAULTS, OWN_DEFAULTS, check_histories, trimmed_histories
from components.parameters import Ints, param


@dataclass(frozen=True)
class SimParameters(EvolutionParameters):
    """The public SIM documentation's, with its defaults."""

    stage_one_mlp_dims: Ints = param(
        (200,), "Hidden layers of the general search's classifier", at_least=1, at_most=65_536
    )
    stage_two_mlp_dims: Ints = param((200, 80), "Hidden layers of the classifier", at_least=1, at_most=65_536)


MODEL = ModelDefinition(
    name="sim",
    title="SIM",
    summary="Search a long history for what fits the target, then look closely.",
    parameters=SimParameters,
    build=Lazy("components.models.sim.model:Sim"),
    optimizers=one_optimizer,
    serving=trimmed_histories,
    explanation=Lazy("components.models.sim.search:sections"),
    needs=(Channel.POSITIVE, Channel.NEGATIVE),
    dataset="amazon_reviews",
    task="click",
    check=check_histories,
    # The average lowers the spread from seed to seed.
    defaults={**OWN_DEFAULTS, "average_decay": 0.95},
    local_defaults=LOCAL_DEFAULTS,
)
