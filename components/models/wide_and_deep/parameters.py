"""Parameters of Wide & Deep, with the names and defaults of the public documentation."""

from __future__ import annotations

from dataclasses import dataclass

from components.steps.parameter import Ints, param


@dataclass(frozen=True)
class WideAndDeepParameters:
    """Sizes and optimizers of both parts."""

    deep_hidden_units: Ints = param((1024,) * 5, "Hidden layers of the deep part", at_least=1, at_most=65_536)
    deep_dropout: float = param(0.1, "Dropout of the deep part's hidden layers", at_least=0, at_most=0.99)
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
        0.00012, "Peak learning rate of the deep part, with RMSProp, at the end of the warm-up", at_least=0
    )
    deep_warmup_epochs: int = param(
        6,
        "Epochs in which the deep part's learning rate rises to its peak; half of the others have 1/4 of it, and the "
        "rest 1/8",
        unit="epochs",
        at_least=0,
    )
