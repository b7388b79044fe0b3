"""Next item: where the item that a user chose next stands among all items, evaluated by NDCG@K and HR@K."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from components.contract import LOG_LIKELIHOOD, LONGEST_LIST, Metric
from components.errors import KfrecError
from components.feature_spec import Channel
from components.lazy import Lazy
from components.metrics import Interval, mean_interval
from components.parameters import param
from components.tasks.catalogue import CATALOGUE, CatalogueEvaluation, discounted_gains
from components.tasks.controls import RECENT_POPULARITY, against_baseline, beats_baseline, below_baseline
from components.tasks.definition import Kept, TaskDefinition
from components.tasks.importance import ImportanceEvaluation
from components.tasks.pairing import PairDecision
from components.tasks.scores import Scores

if TYPE_CHECKING:
    import tensorflow as tf


USER, HISTORY, POPULARITY, KNOWN, KIND = "user", "history_length", "popularity", "known_user", "target_kind"
NDCG = Metric("ndcg", "NDCG@K", k="list_length")
HIT_RATE = Metric("hr", "HR@K", k="list_length")
# The model's output that the task reads: the rank of the target among all items, from 1.
RANK = "rank"
# What to do where the baseline is as good as a model.
COUNT_PAIRS = "item_knn, if this is another model, counts pairs of items, too, trains in seconds and can be published"


@dataclass(frozen=True)
class NextItemTraining:
    """Parameters of the train step."""

    list_length: int = param(10, "K of HR@K and NDCG@K, over all items", unit="items", at_least=1, at_most=LONGEST_LIST)


@dataclass(frozen=True)
class NextItemEvaluation(ImportanceEvaluation, CatalogueEvaluation, NextItemTraining):
    """Parameters of the evaluate step."""


@dataclass(frozen=True)
class NextItemDecision(PairDecision):
    """Parameters of the register step."""

    beat_baseline: bool = param(
        True,
        "Promote a model only if its NDCG@K is above that of the built-in baseline, what follows the newest items of a "
        "history, and that of the popularity of the last days, by more than chance",
    )
    ndcg_floor: float = param(0.0, "A first model needs a test NDCG@K above this", at_least=0, at_most=1)


def chosen_samples(scores: Scores) -> np.ndarray:
    """Which samples have an item that a user chose, bool ``[n]``: all, or those of label 1."""
    return scores.labels > 0 if scores.targets else np.ones(scores.rows, bool)


def chosen_users(scores: Scores) -> np.ndarray | None:
    """The users of these samples; None if the data have none."""
    users = scores.kept.get(USER)
    return None if users is None else users[chosen_samples(scores)]


def _serve(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {name: outputs[name] for name in (LOG_LIKELIHOOD, RANK)}


def _require(scores: Scores, source: object) -> None:
    if not chosen_samples(scores).any():
        raise KfrecError(f"{source}: no test sample has a chosen item; give a test split with items that users chose")


def _gains(scores: Scores, parameters: NextItemEvaluation) -> np.ndarray:
    return discounted_gains(scores.outputs[RANK][chosen_samples(scores)], parameters.list_length)


def _remarks(metrics: Mapping[str, Any]) -> list[str]:
    metric = NDCG.at(metrics)
    end = "" if beats_baseline(metrics, NDCG) else f"; {COUNT_PAIRS}"
    first = [f"{each}{end}" for each in against_baseline(metrics, metric)]
    is_recent_enough = beats_baseline(metrics, NDCG, RECENT_POPULARITY)
    return first + ([] if is_recent_enough else against_baseline(metrics, metric, RECENT_POPULARITY))


def _difference(
    ours: Scores, theirs: Scores, parameters: NextItemEvaluation, samples: int, confidence: float, seed: int
) -> Interval:
    return mean_interval(
        _gains(ours, parameters) - _gains(theirs, parameters),
        samples=samples,
        confidence=confidence,
        seed=seed,
        clusters=chosen_users(ours),
    )


TASK = TaskDefinition(
    name="next_item",
    summary="Which item a user chooses next, out of all items: NDCG@K, HR@K, coverage.",
    metrics=(NDCG, HIT_RATE),
    training=NextItemTraining,
    evaluation=NextItemEvaluation,
    decision=NextItemDecision,
    defaults={"registered_model": "kfrec-retrieval", "refit": True},
    kept=(
        Kept(USER, Channel.USER, told_apart_by=Channel.POSITIVE, exact_only=True),
        Kept(KNOWN, Channel.USER, trained=True, exact_only=True),
        Kept(HISTORY, Channel.POSITIVE, counted=True, exact_only=True),
        Kept(POPULARITY, Channel.TARGET, trained=True, exact_only=True),
        Kept(KIND, Channel.KIND, named=True, exact_only=True),
    ),
    serve=_serve,
    streaming=Lazy("components.tasks.next_item.streaming:RankMetrics"),
    require=_require,
    measure=Lazy("components.tasks.next_item.measure:measure"),
    story=Lazy("components.tasks.next_item.sections:story"),
    value=lambda scores, parameters: float(_gains(scores, parameters).mean()),
    difference=_difference,
    floor=lambda parameters: parameters.ndcg_floor,
    controls=Lazy("components.tasks.next_item.baselines:controls"),
    remarks=_remarks,
    baseline_vetoes=lambda metrics, parameters: (
        below_baseline(metrics, NDCG.at(metrics)) if parameters.beat_baseline else ()
    ),
    catalogue=CATALOGUE,
)
