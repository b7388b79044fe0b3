"""The model toy: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.feature_spec import FeatureSpec
from components.models import Model, ModelDefinition
from components.models.optimizers.groups import OptimizerGroup
from components.steps.parameter import param


@dataclass(frozen=True)
class ToyParameters:
    """Two sizes and two learning rates."""

    width: int = param(4, "Width of an embedding", unit="floats", at_least=1)
    table_lr: float = param(0.5, "Learning rate of the tables", at_least=0)
    dense_lr: float = param(0.02, "Learning rate of the rest, after an epoch of warm-up", at_least=0)


def _build(parameters: ToyParameters, spec: FeatureSpec, seed: int, amp: bool) -> Model:
    from toy.model import Toy  # TensorFlow is imported where it is needed, not when kfrec starts

    return Toy(parameters, spec, seed)


def _optimizers(parameters: ToyParameters, model: Model, steps_per_epoch: int) -> list[OptimizerGroup]:
    from components.models import make_optimizer
    from components.models.optimizers.schedules import warm_up

    tables = [table.variable for table in model.tables.values()]
    rest = [variable for variable in model.trainable_variables if all(variable is not table for table in tables)]
    return [
        OptimizerGroup(make_optimizer("sgd", parameters.table_lr), tables),
        OptimizerGroup(make_optimizer("adam", warm_up(parameters.dense_lr, steps_per_epoch)), rest),
    ]


MODEL = ModelDefinition(
    name="toy",
    title="Toy",
    summary="An item, its tags and its price through one layer.",
    parameters=ToyParameters,
    build=_build,
    optimizers=_optimizers,
    dataset="toy_shop",
    task="toy_hit",
)
