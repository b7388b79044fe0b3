"""Parameters of the task replaced_token, and the metric by which it is compared with its baselines."""

from __future__ import annotations

from dataclasses import dataclass

from components.contract import Metric
from components.parameters import param

AUC = Metric("auc", "replaced-token AUC")


@dataclass(frozen=True)
class ReplacedTokenEvaluation:
    """Parameters of the evaluate step."""

    baseline_texts: int = param(
        2000,
        "Test texts whose tokens are also scored by the counts of tokens and of pairs of neighbours; 0 leaves that out",
        unit="texts",
        at_least=0,
    )
    baseline_training_texts: int = param(
        100_000, "Training texts whose tokens these baselines count", unit="texts", at_least=0
    )


@dataclass(frozen=True)
class ReplacedTokenDecision:
    """Parameters of the register step."""

    require_baseline: bool = param(
        True,
        "Promote a model only if its replaced-token AUC is above that of the built-in baseline, the better of the "
        "counts of tokens and of pairs of neighbours, by more than chance",
    )
    loss_ceiling: float = param(30.0, "A first model needs a test loss below this to become champion", at_least=0)
