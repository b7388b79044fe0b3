"""Parameters of popularity."""

from __future__ import annotations

from dataclasses import dataclass

from components.models.parameters import OneOptimizer
from components.parameters import param


@dataclass(frozen=True)
class PopularityParameters(OneOptimizer):
    """The feature whose values are counted, and the optimizer that does it."""

    feature: str = param(
        "", "Feature whose values determine the score; empty is the first one of the target item, or of the table"
    )
    lr: float = param(0.05, "Learning rate", at_least=0)
