"""Parameters of the task next_item, its metrics and the columns that it reads."""

from __future__ import annotations

from dataclasses import dataclass

from components.contract import LONGEST_LIST, Metric
from components.parameters import param
from components.tasks.catalogue import CATALOGUE_SCORES, CATALOGUE_TOP, CATALOGUE_USERS
from components.tasks.pairing import PairDecision

USER = "user"
NDCG = Metric("ndcg", "NDCG@K")
HIT_RATE = Metric("hr", "HR@K")
# The model's output that the task judges: the rank of the target among all items, from 1.
RANK = "rank"
LIST_LENGTH = param(10, "K of HR@K and NDCG@K, over all items", unit="items", at_least=1, at_most=LONGEST_LIST)


@dataclass(frozen=True)
class NextItemTraining:
    """Parameters of the train step."""

    list_length: int = LIST_LENGTH


@dataclass(frozen=True)
class NextItemEvaluation:
    """Parameters of the evaluate step."""

    list_length: int = LIST_LENGTH
    catalogue_users: int = CATALOGUE_USERS
    catalogue_scores: int = CATALOGUE_SCORES
    catalogue_top: int = CATALOGUE_TOP


@dataclass(frozen=True)
class NextItemDecision(PairDecision):
    """Parameters of the register step."""

    beat_baseline: bool = param(
        True,
        "Promote a model only if its NDCG@K is above that of the built-in baseline, what follows the newest items of a "
        "history, by more than chance",
    )
    ndcg_floor: float = param(0.0, "A first model needs a test NDCG@K above this", at_least=0, at_most=1)
