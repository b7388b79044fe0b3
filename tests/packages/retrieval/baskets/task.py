"""The task finding: how often the item of a sample is among the best of all items, by the vectors of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from components.metrics import Interval, mean_interval
from components.parameters import param
from components.report import Card, Story
from components.tasks import Exchange, Kept, Measured, Metric, Scores, Streaming, TaskDefinition

if TYPE_CHECKING:
    import tensorflow as tf

# One parameter of two steps: equal declarations of one owner are one parameter of the pipeline.
HIT_K = param(3, "Best items among which the sample's own one is a hit", unit="items", at_least=1)


@dataclass(frozen=True)
class Training:
    """Of the train step."""

    hit_k: int = HIT_K


@dataclass(frozen=True)
class Evaluation:
    """Of the evaluate step."""

    hit_k: int = HIT_K


@dataclass(frozen=True)
class Decision:
    """Of the register step."""

    hit_floor: float = param(0.2, "A first model must hit more often than this", at_least=0, at_most=1)


def hits(users: np.ndarray, items: np.ndarray, ids: np.ndarray, k: int) -> np.ndarray:
    """Whether fewer than ``k`` of all items in the samples have a larger product with the user than the own one.

    Args:
        users: vectors ``[n, width]``.
        items: vectors ``[n, width]``.
        ids: of the items, ``[n]``.
        k: length of the list.

    Returns:
        bool ``[n]``.
    """
    _, first, own = np.unique(ids, return_index=True, return_inverse=True)
    products = users @ items[first].T
    return (products > np.take_along_axis(products, own[:, np.newaxis], 1)).sum(1) < k


def _streaming(training: bool, parameters: Training) -> Streaming:
    import tensorflow as tf

    class Hits(tf.Module):
        """Keeps the vectors on the host; all are needed at once, on one rank. It measures nothing while it trains."""

        def __init__(self) -> None:
            super().__init__()
            self._parts: list[list[np.ndarray]] = []

        def update(
            self,
            targets: Mapping[str, tf.Tensor],
            outputs: Mapping[str, tf.Tensor],
            kept: Mapping[str, tf.Tensor],
        ) -> None:
            if not training:
                tf.numpy_function(self._add, [outputs["user"], outputs["item"], kept["item"]], [])

        def _add(self, *arrays: np.ndarray) -> None:
            self._parts.append([array.copy() for array in arrays])  # TensorFlow reuses their memory

        def reset(self) -> None:
            self._parts.clear()

        def totals(self, ranks: Exchange) -> list[tf.Tensor]:
            if training:
                return []
            columns = [np.concatenate(parts) for parts in zip(*self._parts, strict=True)]
            users, items, ids = ranks.exchange(np.zeros(len(columns[0]), np.int64), columns)
            found = hits(users, items, ids, parameters.hit_k) if len(ids) else np.zeros(0)
            return [tf.constant([found.sum(), len(found)], tf.float64)]

        def load(self, totals: Sequence[np.ndarray]) -> None:
            """Nothing is measured while it trains."""

        def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
            if training:
                return {}
            found, rows = totals[0].tolist()
            return {"hit_rate": found / rows if rows else float("nan")}

    return Hits()


def _hits(scores: Scores, parameters: Evaluation) -> np.ndarray:
    vectors = scores.outputs
    return hits(vectors["user_vector"], vectors["item_vector"], scores.kept["item"], parameters.hit_k).astype(
        np.float64
    )


def _measure(scores: Scores, parameters: Evaluation) -> Measured:
    found = mean_interval(_hits(scores, parameters))
    return Measured(
        {"test_hit_rate": found.estimate, "test_hit_rate_low": found.low, "test_hit_rate_high": found.high}, {}
    )


def _story(measured: Measured) -> Story:
    rate = measured.metrics["test_hit_rate"]
    lead = "How often the item that was bought is among the best ones for its user."
    return Story(f"{rate:.1%} found", lead, [Card("Hit rate", rate, "", main=True)], [])


def _difference(
    ours: Scores, theirs: Scores, parameters: Evaluation, samples: int, confidence: float, seed: int
) -> Interval:
    gains = _hits(ours, parameters) - _hits(theirs, parameters)
    return mean_interval(gains, samples=samples, confidence=confidence, seed=seed)


TASK = TaskDefinition(
    name="finding",
    summary="How often the item of a sample is among the best of all items.",
    metrics=(Metric("hit_rate", "hit rate"),),
    training=Training,
    evaluation=Evaluation,
    decision=Decision,
    defaults={"registered_model": "towers", "promotion_margin": 0.01},
    kept=(Kept("item", "item", needed_for="the hit rate"),),
    serve=lambda outputs: {f"{name}_vector": outputs[name] for name in ("user", "item")},
    streaming=_streaming,
    require=lambda scores, source: None,
    measure=_measure,
    story=_story,
    value=lambda scores, parameters: float(_hits(scores, parameters).mean()),
    difference=_difference,
    floor=lambda parameters: parameters.hit_floor,
)
