"""DIEN: its parameters, and how it is built."""

from __future__ import annotations

from components.feature_spec import FeatureSpec
from components.models.definition import ModelDefinition
from components.models.dien.parameters import DienParameters
from components.models.model import Model
from components.models.optimizers import one_optimizer
from components.models.sequences import check_histories, trimmed_histories


def _build(parameters: DienParameters, spec: FeatureSpec, seed: int, amp: bool) -> Model:
    from components.models.dien.model import Dien

    return Dien(parameters, spec, seed, amp)


MODEL = ModelDefinition(
    name="dien",
    title="DIEN",
    summary="The interest is where a recurrence over the newest items ends.",
    parameters=DienParameters,
    build=_build,
    optimizers=one_optimizer,
    serving=trimmed_histories,
    dataset="amazon_reviews",
    task="click",
    check=check_histories,
)
