"""Parameters of Wide & Deep, with the names and defaults of the public documentation."""

from __future__ import annotations

from dataclasses import dataclass

from components.models.parameters import BATCH_NORMALIZATION, EMBEDDING_L2
from components.parameters import Ints, param

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
