"""DLRM: its parameters, how it is built, and its learning rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.dlrm.parameters import ADAM, DlrmParameters
from components.models.optimizers import make_optimizer
from components.models.parameters import check_batch_normalization

if TYPE_CHECKING:
    from components.models.model import Model
    from components.models.optimizers.groups import OptimizerGroup
    from components.models.optimizers.schedules import Schedule


def _optimizers(parameters: DlrmParameters, model: Model, steps_per_epoch: int) -> list[OptimizerGroup]:
    from components.models.optimizers.groups import OptimizerGroup

    rate = learning_rate(parameters)
    if parameters.optimizer != ADAM:
        return [OptimizerGroup(make_optimizer(parameters.optimizer, rate), model.trainable_variables)]
    tables = {table.variable.ref(): table.variable for table in model.tables.values()}
    rest = [variable for variable in model.trainable_variables if variable.ref() not in tables]
    return [
        OptimizerGroup(make_optimizer("lazy_adam", rate), list(tables.values())),
        OptimizerGroup(make_optimizer("adam", rate), rest),
    ]


def learning_rate(parameters: DlrmParameters) -> Schedule:
    """The learning rate after s steps: linear warm-up, constant rate, and polynomial decay.

    highest * s / warmup_steps                                      while s < warmup_steps
    highest                                                         until decay_start_step
    highest * ((decay_start_step + decay_steps - s) / decay_steps) ** 2
    """
    from components.models.optimizers.schedules import polynomial_decay, warm_up

    highest, begin = parameters.learning_rate, parameters.decay_start_step
    if not parameters.decay_steps:
        return warm_up(highest, parameters.warmup_steps)
    fall = polynomial_decay(highest, begin, begin + parameters.decay_steps, power=2.0)
    return warm_up(highest, parameters.warmup_steps, fall)


MODEL = ModelDefinition(
    name="dlrm",
    title="DLRM",
    summary="Numbers through a network, and its dot products with embeddings through another.",
    parameters=DlrmParameters,
    build=Lazy("components.models.dlrm.model:Dlrm"),
    optimizers=_optimizers,
    dataset="criteo",
    task="click",
    check=check_batch_normalization,
    defaults={"epochs": 1, "global_batch_size": 65_536},
    # The published schedule ends a training of a hundred thousand samples in its warm-up.
    local_defaults={
        "epochs": 2,
        "global_batch_size": 1024,
        "embedding_dim": 16,
        "bottom_mlp_dims": (64, 32, 16),
        "top_mlp_dims": (128, 64, 1),
        "optimizer": ADAM,
        "learning_rate": 0.002,
        "warmup_steps": 100,
        "decay_steps": 0,
    },
    # For thousands to millions of rows. Without dropout the bottom network memorises the pieces of quantiles; widths
    # and penalty are by validation on numbers with weak steps and on ids (docs/results.md).
    dataset_defaults={
        "tabular": {
            "epochs": 30,
            "patience": 3,
            "global_batch_size": 256,
            "embedding_dim": 16,
            "bottom_mlp_dims": (128, 16),
            "bottom_dropout": 0.6,
            "top_mlp_dims": (256, 128, 1),
            "top_dropout": 0.5,
            "batch_normalization": True,
            "embedding_l2": 0.03,
            "optimizer": ADAM,
            "learning_rate": 0.001,
            "warmup_steps": 0,
            "decay_steps": 0,
        }
    },
)
