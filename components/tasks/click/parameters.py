"""Parameters of the task click, and its metric."""

from __future__ import annotations

from dataclasses import dataclass

from components.contract import Metric
from components.parameters import param
from components.tasks.binary import (
    BASELINE_SAMPLES,
    CONTROL_SAMPLES,
    IMPORTANCE_SAMPLES,
    REQUIRE_BASELINE,
)
from components.tasks.catalogue import CATALOGUE_SCORES, CATALOGUE_TOP, CATALOGUE_USERS
from components.tasks.pairing import PairDecision

AUC = Metric("auc", "AUC")


@dataclass(frozen=True)
class ClickEvaluation:
    """Parameters of the evaluate step."""

    control_samples: int = CONTROL_SAMPLES
    baseline_samples: int = BASELINE_SAMPLES
    importance_samples: int = IMPORTANCE_SAMPLES
    catalogue_users: int = CATALOGUE_USERS
    catalogue_scores: int = CATALOGUE_SCORES
    catalogue_top: int = CATALOGUE_TOP


@dataclass(frozen=True)
class ClickDecision(PairDecision):
    """Parameters of the register step."""

    require_baseline: bool = REQUIRE_BASELINE
    auc_floor: float = param(0.6, "A first model needs a test AUC above this to become champion", at_least=0, at_most=1)
