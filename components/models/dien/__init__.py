"""DIEN: its parameters, and how it is built."""

from __future__ import annotations

from components.feature_spec import Channel
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.dien.parameters import DienParameters
from components.models.optimizers import one_optimizer
from components.models.sequences import LOCAL_DEFAULTS, OWN_DEFAULTS, check_histories, trimmed_histories

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
