"""Parameters of the task click, and its metric."""

from __future__ import annotations

from dataclasses import dataclass

from components.contract import Metric
from components.parameters import param
from components.tasks.binary import (
    BASELINE_SAMPLES,
    CALIBRATION_BINS,
    CONTROL_SAMPLES,
    IMPORTANCE_SAMPLES,
    REQUIRE_BASELINE,
)

AUC = Metric("auc", "AUC")


@dataclass(frozen=True)
class ClickEvaluation:
    """Parameters of the evaluate step."""

    calibration_bins: int = CALIBRATION_BINS
    control_samples: int = CONTROL_SAMPLES
    baseline_samples: int = BASELINE_SAMPLES
    importance_samples: int = IMPORTANCE_SAMPLES
    catalogue_users: int = param(
        300, "Test users for whom all items are ranked; 0 leaves it out", unit="users", at_least=0
    )
    catalogue_scores: int = param(
        3_000_000,
        "Most scores of that ranking, users times items; a larger catalogue is ranked for fewer users",
        unit="scores",
        at_least=1,
    )
    catalogue_top: int = param(10, "Items of a list, the K of HR@K and NDCG@K", unit="items", at_least=1, at_most=1000)


@dataclass(frozen=True)
class ClickDecision:
    """Parameters of the register step."""

    require_baseline: bool = REQUIRE_BASELINE
    auc_floor: float = param(0.6, "A first model needs a test AUC above this to become champion", at_least=0, at_most=1)
