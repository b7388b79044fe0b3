"""The model trip_time: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.feature_spec import FeatureSpec
from components.models import Model, ModelDefinition
from components.parameters import param

if TYPE_CHECKING:
    from components.models.optimizers.groups import OptimizerGroup


@dataclass(frozen=True)
class TripTimeParameters:
    """A size and two learning rates."""

    width: int = param(4, "Width of an embedding", unit="floats", at_least=1)
    table_lr: float = param(0.5, "Learning rate of the tables", at_least=0)
    dense_lr: float = param(0.1, "Learning rate of the rest, after an epoch of warm-up", at_least=0)


def _build(parameters: TripTimeParameters, spec: FeatureSpec, seed: int, amp: bool) -> Model:
    from trips.model import TripTime  # TensorFlow is imported where it is needed, not when kfrec starts

    return TripTime(parameters, spec, seed)


def _optimizers(parameters: TripTimeParameters, model: Model, steps_per_epoch: int) -> list[OptimizerGroup]:
    from components.models import make_optimizer
    from components.models.optimizers.groups import OptimizerGroup
    from components.models.optimizers.schedules import warm_up

    tables = [table.variable for table in model.tables.values()]
    rest = [variable for variable in model.trainable_variables if all(variable is not table for table in tables)]
    return [
        OptimizerGroup(make_optimizer("sgd", parameters.table_lr), tables),
        OptimizerGroup(make_optimizer("adam", warm_up(parameters.dense_lr, steps_per_epoch)), rest),
    ]


MODEL = ModelDefinition(
    name="trip_time",
    title="Trip time",
    summary="Minutes of a trip from its zone, stops and distance, through one layer.",
    parameters=TripTimeParameters,
    build=_build,
    optimizers=_optimizers,
    dataset="trips",
    task="trip_rmse",
    defaults={"epochs": 4, "global_batch_size": 200},
)
