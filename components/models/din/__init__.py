"""DIN: its parameters, and how it is built."""

from __future__ import annotations

from components.feature_spec import FeatureSpec
from components.models.definition import ModelDefinition
from components.models.din.parameters import DinParameters
from components.models.model import Model
from components.models.optimizers import one_optimizer
from components.models.sequences import trimmed_histories


def _build(parameters: DinParameters, spec: FeatureSpec, seed: int, amp: bool) -> Model:
    from components.models.din.model import Din

    return Din(parameters, spec, seed, amp)


MODEL = ModelDefinition(
    name="din",
    title="DIN",
    summary="The history, weighted by how well each item fits the target.",
    parameters=DinParameters,
    build=_build,
    optimizers=one_optimizer,
    serving=trimmed_histories,
    dataset="amazon_reviews",
    task="click",
)
