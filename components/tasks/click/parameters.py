"""Parameters of the task click."""

from __future__ import annotations

from dataclasses import dataclass

from components.steps.parameter import param
from components.tasks.binary import CALIBRATION_BINS


@dataclass(frozen=True)
class ClickEvaluation:
    """Parameters of the evaluate step."""

    calibration_bins: int = CALIBRATION_BINS


@dataclass(frozen=True)
class ClickDecision:
    """Parameters of the register step."""

    auc_floor: float = param(0.6, "A first model needs a test AUC above this to become champion", at_least=0, at_most=1)
