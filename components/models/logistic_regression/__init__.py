"""Logistic regression, a baseline: its parameters, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass

from components.feature_spec import FeatureSpec
from components.models.definition import ModelDefinition
from components.models.model import Model
from components.models.optimizers import one_optimizer
from components.models.parameters import OneOptimizer


@dataclass(frozen=True)
class LogisticRegressionParameters(OneOptimizer):
    """Its optimizer; the features decide its size."""


def _build(parameters: LogisticRegressionParameters, spec: FeatureSpec, seed: int, amp: bool) -> Model:
    from components.models.logistic_regression.model import LogisticRegression

    return LogisticRegression(spec)  # needs no seed, and is too small to gain from float16


MODEL = ModelDefinition(
    name="logistic_regression",
    title="Logistic regression",
    summary="A weight for each id and each number of a table; a baseline.",
    parameters=LogisticRegressionParameters,
    build=_build,
    optimizers=one_optimizer,
    dataset="tabular",
    task="click",
    defaults={"epochs": 10, "global_batch_size": 4096},
    local_defaults={"global_batch_size": 1024},
    is_baseline=True,
    dataset_defaults={"tabular": {"epochs": 30, "patience": 3, "global_batch_size": 256, "lr": 0.002}},
)
