"""DLRM: its parameters, how it is built, and its learning rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.errors import KfrecError
from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.optimizers import adam_by_rows, make_optimizer
from components.models.parameters import BATCH_NORMALIZATION, EMBEDDING_L2, check_batch_normalization
from components.parameters import Ints, param

if TYPE_CHECKING:
    from components.models.model import Model
    from components.models.optimizers.groups import OptimizerGroup
    from components.models.optimizers.schedules import Schedule


SGD, ADAM = "sgd", "adam"


@dataclass(frozen=True)
class DlrmParameters:
    """Sizes and learning rates, with the names and defaults of the public DLRM documentation."""

    embedding_dim: int = param(128, "Width of one feature's embedding", unit="floats", at_least=1, at_most=4096)
    bottom_mlp_dims: Ints = param(
        (512, 256, 128), "Layers over the numerical features; the last is as wide as an embedding", at_least=1,
        at_most=65_536,
    )  # fmt: skip
    top_mlp_dims: Ints = param(
        (1024, 1024, 512, 256, 1), "Layers over the interactions; the last is the logit", at_least=1, at_most=65_536
    )
    bottom_dropout: float = param(0.0, "Dropout of the bottom network's layers but the last", at_least=0, at_most=0.99)
    top_dropout: float = param(0.0, "Dropout of the top network's hidden layers", at_least=0, at_most=0.99)
    batch_normalization: bool = BATCH_NORMALIZATION
    embedding_l2: float = EMBEDDING_L2
    optimizer: str = param(SGD, "Optimizer; adam updates only the table rows in the batch", choices=(SGD, ADAM))
    learning_rate: float = param(24.0, "Peak learning rate; the default suits SGD and batches of 65,536", at_least=0)
    warmup_steps: int = param(8000, "Warm-up steps, from a learning rate of 0 to its peak", unit="steps", at_least=0)
    decay_start_step: int = param(48_000, "Step at which the learning rate starts to decay", unit="steps", at_least=0)
    decay_steps: int = param(
        24_000, "Steps of the decay to 0, after which nothing is learned; 0 keeps the peak learning rate",
        unit="steps", at_least=0,
    )  # fmt: skip

    def check(self) -> None:
        """The layers fit each other.

        Raises:
            KfrecError: they do not.
        """
        if not self.bottom_mlp_dims or self.bottom_mlp_dims[-1] != self.embedding_dim:
            raise KfrecError(
                f"parameter bottom_mlp_dims={_joined(self.bottom_mlp_dims)} does not end in "
                f"embedding_dim={self.embedding_dim}; its result interacts with the embeddings, so make them equal"
            )
        if not self.top_mlp_dims or self.top_mlp_dims[-1] != 1:
            raise KfrecError(
                f"parameter top_mlp_dims={_joined(self.top_mlp_dims)} does not end in 1, the logit; append a 1"
            )


def _joined(dims: Ints) -> str:
    return ",".join(map(str, dims))


def _optimizers(parameters: DlrmParameters, model: Model, steps_per_epoch: int) -> list[OptimizerGroup]:
    from components.models.optimizers.groups import OptimizerGroup

    rate = learning_rate(parameters)
    if parameters.optimizer == ADAM:
        return adam_by_rows(model, rate)
    return [OptimizerGroup(make_optimizer(parameters.optimizer, rate), model.trainable_variables)]


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
            "average_decay": 0.998,
            "embedding_dim": 16,
            "bottom_mlp_dims": (128, 16),
            "bottom_dropout": 0.6,
            "top_mlp_dims": (256, 128, 1),
            "top_dropout": 0.5,
            "batch_normalization": True,
            "embedding_l2": 0.1,
            "optimizer": ADAM,
            "learning_rate": 0.001,
            "warmup_steps": 0,
            "decay_steps": 0,
        }
    },
)
