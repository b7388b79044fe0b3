"""SIM: its parameters, and how it is built."""

from __future__ import annotations

from components.feature_spec import Channel
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.optimizers import one_optimizer
from components.models.sequences import LOCAL_DEFAULTS, OWN_DEFAULTS, check_histories, trimmed_histories
from components.models.sim.parameters import SimParameters

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
