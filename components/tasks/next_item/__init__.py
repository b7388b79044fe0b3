"""Next item: where the item that a user chose next stands among all items, evaluated by NDCG@K and HR@K."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from components.contract import LOG_LIKELIHOOD
from components.errors import KfrecError
from components.feature_spec import Channel
from components.lazy import Lazy
from components.metrics import Interval, mean_interval
from components.tasks.control_metrics import below_baseline
from components.tasks.definition import CatalogueMeasure, Kept, Measured, Streaming, TaskDefinition
from components.tasks.next_item.parameters import (
    HIT_RATE,
    NDCG,
    RANK,
    USER,
    NextItemDecision,
    NextItemEvaluation,
    NextItemTraining,
)
from components.tasks.next_item.ranks import chosen_samples, discounted_gains
from components.tasks.scores import Scores

if TYPE_CHECKING:
    import tensorflow as tf


def _serve(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {name: outputs[name] for name in (LOG_LIKELIHOOD, RANK)}


def _streaming(training: bool, parameters: NextItemTraining) -> Streaming:
    from components.tasks.next_item.streaming import RankMetrics

    return RankMetrics(training, parameters.list_length)


def _require(scores: Scores, source: object) -> None:
    if not chosen_samples(scores).any():
        raise KfrecError(f"{source}: no test sample has a chosen item; give a test split with items that users chose")


def _measure(scores: Scores, parameters: NextItemEvaluation) -> Measured:
    from components.tasks.next_item.measure import measure

    return measure(scores, parameters.list_length)


def _gains(scores: Scores, parameters: NextItemEvaluation) -> np.ndarray:
    return discounted_gains(scores.outputs[RANK][chosen_samples(scores)], parameters.list_length)


def _difference(
    ours: Scores, theirs: Scores, parameters: NextItemEvaluation, samples: int, confidence: float, seed: int
) -> Interval:
    users = ours.kept.get(USER)
    return mean_interval(
        _gains(ours, parameters) - _gains(theirs, parameters),
        samples=samples,
        confidence=confidence,
        seed=seed,
        clusters=None if users is None else users[chosen_samples(ours)],
    )


TASK = TaskDefinition(
    name="next_item",
    summary="Which item a user chooses next, out of all items: NDCG@K, HR@K, coverage.",
    metrics=(NDCG, HIT_RATE),
    training=NextItemTraining,
    evaluation=NextItemEvaluation,
    decision=NextItemDecision,
    defaults={"registered_model": "kfrec-retrieval"},
    kept=(Kept(USER, Channel.USER, told_apart_by=Channel.POSITIVE, exact_only=True),),
    serve=_serve,
    streaming=_streaming,
    require=_require,
    measure=_measure,
    story=Lazy("components.tasks.next_item.sections:story"),
    value=lambda scores, parameters: float(_gains(scores, parameters).mean()),
    difference=_difference,
    floor=lambda parameters: parameters.ndcg_floor,
    controls=Lazy("components.tasks.next_item.baselines:controls"),
    remarks=lambda metrics: below_baseline(metrics, NDCG),
    vetoes=lambda metrics, parameters: below_baseline(metrics, NDCG) if parameters.beat_baseline else (),
    catalogue=CatalogueMeasure(
        users=lambda parameters: parameters.catalogue_users,
        scores=lambda parameters: parameters.catalogue_scores,
        top=lambda parameters: parameters.catalogue_top,
        measure=Lazy("components.tasks.catalogue:measure_catalogue"),
    ),
)
