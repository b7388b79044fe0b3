"""The model towers: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.feature_spec import FeatureSpec
from components.models import Model, ModelDefinition
from components.models.optimizers import one_optimizer
from components.models.parameters import OneOptimizer
from components.parameters import param


@dataclass(frozen=True)
class TowersParameters(OneOptimizer):
    """Its optimizer and the width of its vectors."""

    tower_width: int = param(8, "Width of the vectors of users and items", unit="floats", at_least=1)


def _build(parameters: TowersParameters, spec: FeatureSpec, seed: int, amp: bool) -> Model:
    from baskets.model import Towers

    return Towers(parameters, spec, seed)


MODEL = ModelDefinition(
    name="towers",
    title="Two towers",
    summary="A vector for each user and each item, whose product is largest for the items that the user buys.",
    parameters=TowersParameters,
    build=_build,
    optimizers=one_optimizer,
    dataset="baskets",
    task="finding",
    defaults={"epochs": 5, "global_batch_size": 200, "lr": 0.05},
)
