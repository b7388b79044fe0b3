"""Parameters of the logistic regression."""

from __future__ import annotations

from dataclasses import dataclass

from components.models.parameters import OneOptimizer


@dataclass(frozen=True)
class LogisticRegressionParameters(OneOptimizer):
    """Its optimizer; the features decide its size."""
