"""HR@K and NDCG@K during training, on the validation samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from components.contract import only_label
from components.tasks.definition import Exchange, Tensors
from components.tasks.next_item import RANK, NextItemTraining


class RankMetrics(tf.Module):
    """Sums over the samples with a chosen item.

    Args:
        training: measure nothing: the rank among all items costs more than the training step.
    """

    def __init__(self, training: bool, parameters: NextItemTraining) -> None:
        super().__init__()
        self._training, self._k = training, float(parameters.list_length)
        self._sums = tf.Variable(tf.zeros([3], tf.float64), trainable=False, name="sums")

    def update(self, targets: Tensors, outputs: Tensors, kept: Tensors) -> None:
        if self._training:
            return
        ranks = tf.cast(outputs[RANK], tf.float64)
        chosen = only_label(targets) > 0.5 if targets else tf.ones_like(ranks, tf.bool)
        hit = tf.cast(chosen & (ranks <= self._k), tf.float64)
        gains = hit * math.log(2) / tf.math.log1p(ranks)
        self._sums.assign_add(
            tf.stack([tf.reduce_sum(gains), tf.reduce_sum(hit), tf.reduce_sum(tf.cast(chosen, tf.float64))])
        )

    def reset(self) -> None:
        self._sums.assign(tf.zeros_like(self._sums))

    def totals(self, ranks: Exchange) -> list[tf.Tensor]:
        return [] if self._training else [self._sums.read_value()]

    def load(self, totals: Sequence[np.ndarray]) -> None:
        if not self._training:
            self._sums.assign(totals[0])

    def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
        if self._training:
            return {}
        gains, hit, samples = np.asarray(totals[0]).tolist()
        return {"ndcg": gains / samples, "hr": hit / samples} if samples else {"ndcg": math.nan, "hr": math.nan}
