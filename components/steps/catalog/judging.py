"""Parameters of the steps that judge a model."""

from __future__ import annotations

from dataclasses import dataclass

from components.parameters import param
from components.shared_parameters import (
    DATA_VERSION,
    EVALUATION_BATCH_SIZE,
    EXPERIMENT,
    MODEL,
    REGISTERED_MODEL,
    RUN_ID,
    TASK,
)


@dataclass(frozen=True)
class EvaluateParameters:
    """How the model is evaluated on the test split."""

    task: str = TASK
    evaluation_batch_size: int = EVALUATION_BATCH_SIZE
    experiment: str = EXPERIMENT
    run_id: str = RUN_ID


@dataclass(frozen=True)
class RegisterParameters:
    """When a model becomes the champion."""

    registered_model: str = REGISTERED_MODEL
    task: str = TASK
    model_type: str = MODEL
    promotion_margin: float = param(
        0.001, "A challenger must beat the champion's primary metric by this much, in its unit", at_least=0
    )
    bootstrap_samples: int = param(1000, "Resamples of the confidence interval", unit="resamples", at_least=100)
    confidence: float = param(0.95, "Level of the confidence interval", at_least=0.5, at_most=0.9999)
    evaluation_batch_size: int = EVALUATION_BATCH_SIZE
    data_version: str = DATA_VERSION
    occasion: str = param("", "Reason for the training, recorded with the model")
    experiment: str = EXPERIMENT
    run_id: str = RUN_ID
