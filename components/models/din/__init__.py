"""DIN: its parameters, and how it is built."""

from __future__ import annotations

from components.feature_spec import Channel
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.din.parameters import DinParameters
from components.models.optimizers import one_optimizer
from components.models.sequences import LOCAL_DEFAULTS, OWN_DEFAULTS, trimmed_histories

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
