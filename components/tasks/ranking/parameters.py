"""Parameters of the task ranking, its metric and the column that it reads."""

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

GROUP = "group"
MAP = Metric("map", "MAP@k", of_groups=True)
MAP_K = param(12, "Positions of a group's ranking that MAP@k counts", unit="positions", at_least=1, at_most=100_000)


@dataclass(frozen=True)
class RankingTraining:
    """Parameters of the train step."""

    map_k: int = MAP_K


@dataclass(frozen=True)
class RankingEvaluation:
    """Parameters of the evaluate step."""

    map_k: int = MAP_K
    control_samples: int = CONTROL_SAMPLES
    baseline_samples: int = BASELINE_SAMPLES
    importance_samples: int = IMPORTANCE_SAMPLES


@dataclass(frozen=True)
class RankingDecision:
    """Parameters of the register step."""

    require_baseline: bool = REQUIRE_BASELINE
    map_floor: float = param(
        0.5, "A first model needs a test MAP@k above this to become champion", at_least=0, at_most=1
    )
