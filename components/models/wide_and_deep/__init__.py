"""Wide & Deep: its parameters, how it is built, and its two optimizers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.lazy import Lazy
from components.models.definition import ModelDefinition
from components.models.optimizers import make_optimizer
from components.models.parameters import BATCH_NORMALIZATION, EMBEDDING_L2, check_batch_normalization
from components.parameters import Ints, param

if TYPE_CHECKING:
    from components.models.optimizers.groups import OptimizerGroup
    from components.models.optimizers.schedules import Schedule


RMSPROP, ADAM = "rmsprop", "adam"


@dataclass(frozen=True)
class WideAndDeepParameters:
    """Sizes and optimizers of both parts."""

    deep_hidden_units: Ints = param((1024,) * 5, "Hidden layers of the deep part", at_least=1, at_most=65_536)
    deep_dropout: float = param(0.1, "Dropout of the deep part's hidden layers", at_least=0, at_most=0.99)
    batch_normalization: bool = BATCH_NORMALIZATION
    embedding_l2: float = EMBEDDING_L2
    embedding_dim: int = param(
        0,
        "Width of every embedding of the deep part; 0 takes the published width of a feature, or 16, 64 or 128 by its "
        "cardinality",
        unit="floats",
        at_least=0,
        at_most=4096,
    )
    linear_learning_rate: float = param(0.02, "Learning rate of the wide part, with FTRL", at_least=0)
    deep_learning_rate: float = param(
        0.00012, "Peak learning rate of the deep part, at the end of the warm-up", at_least=0
    )
    deep_optimizer: str = param(RMSPROP, "Optimizer of the deep part", choices=(RMSPROP, ADAM))
    deep_warmup_epochs: int = param(
        6, "Epochs in which the deep part's learning rate rises to its peak", unit="epochs", at_least=0
    )
    deep_decay: bool = param(
        True,
        "Lower the deep part's learning rate after the warm-up, to 1/4 of the peak for half of the other epochs and to "
        "1/8 for the rest; false keeps the peak",
    )


RHO = 0.5


def _optimizers(parameters: Any, model: Any, steps_per_epoch: int) -> list[OptimizerGroup]:
    from components.models.optimizers.groups import OptimizerGroup

    deep_rate = deep_schedule(parameters, parameters.epochs, steps_per_epoch)
    settings = {"rho": RHO} if parameters.deep_optimizer == RMSPROP else {}
    return [
        OptimizerGroup(make_optimizer("ftrl", parameters.linear_learning_rate), model.wide.trainable_variables),
        OptimizerGroup(
            make_optimizer(parameters.deep_optimizer, deep_rate, **settings), model.deep.trainable_variables
        ),
    ]


def deep_schedule(parameters: WideAndDeepParameters, epochs: int, steps_per_epoch: int) -> Schedule:
    """The deep part's learning rate.

        peak * s / W    while s < W, the steps of the warm-up
        peak / 4        for half of the remaining steps
        peak / 8        afterwards

    Of 20 epochs with 6 of warm-up, the last phase begins after 13. A training of fewer epochs than the warm-up ends
    within it. Without decay, the peak follows the warm-up.
    """
    from components.models.optimizers.schedules import piecewise, warm_up

    peak, warm = parameters.deep_learning_rate, parameters.deep_warmup_epochs * steps_per_epoch
    if not parameters.deep_decay:
        return warm_up(peak, warm)
    half = (warm + epochs * steps_per_epoch) // 2
    return warm_up(peak, warm, piecewise([(0, peak / 4), (half, peak / 8)]))


MODEL = ModelDefinition(
    name="wide_and_deep",
    title="Wide & Deep",
    summary="A linear model and a deep network of the same features, added up.",
    parameters=WideAndDeepParameters,
    build=Lazy("components.models.wide_and_deep.model:WideAndDeep"),
    optimizers=_optimizers,
    dataset="outbrain",
    task="ranking",
    check=check_batch_normalization,
    defaults={"epochs": 20, "global_batch_size": 131_072},
    # Tens of thousands of samples give few steps: small batches, a small network and high rates converge in them.
    local_defaults={
        "epochs": 3,
        "global_batch_size": 512,
        "deep_hidden_units": (64, 64),
        "embedding_dim": 16,
        "deep_learning_rate": 0.008,
        "linear_learning_rate": 0.05,
        "deep_warmup_epochs": 1,
    },
    # Layers and dropout by validation on numbers with weak steps, on ids and on census rows (docs/results.md): narrower
    # layers lose on ids, and less dropout on numbers.
    dataset_defaults={
        "tabular": {
            "epochs": 30,
            "patience": 3,
            "global_batch_size": 256,
            "average_decay": 0.998,
            "deep_hidden_units": (256, 128),
            "deep_dropout": 0.5,
            "embedding_dim": 16,
            "batch_normalization": True,
            "embedding_l2": 0.1,
            "deep_optimizer": ADAM,
            "deep_learning_rate": 0.001,
            "linear_learning_rate": 0.02,
            "deep_warmup_epochs": 0,
            "deep_decay": False,
        }
    },
)
