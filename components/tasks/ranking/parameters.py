"""Parameters of the task ranking."""

from __future__ import annotations

from dataclasses import dataclass

from components.parameters import param
from components.tasks.binary import CALIBRATION_BINS

MAP_K = param(12, "Positions of a group's ranking that MAP@k counts", unit="positions", at_least=1, at_most=100_000)


@dataclass(frozen=True)
class RankingTraining:
    """Parameters of the train step."""

    map_k: int = MAP_K


@dataclass(frozen=True)
class RankingEvaluation:
    """Parameters of the evaluate step."""

    map_k: int = MAP_K
    calibration_bins: int = CALIBRATION_BINS


@dataclass(frozen=True)
class RankingDecision:
    """Parameters of the register step."""

    map_floor: float = param(
        0.5, "A first model needs a test MAP@k above this to become champion", at_least=0, at_most=1
    )
