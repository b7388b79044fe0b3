"""MAP@k during training, exact for groups split over batches and ranks.

Each rank buffers group, score and label of its share of the test split on the host, 9 bytes per sample (13 for int64
ids). At the end of the split, an all-to-all sends each sample to the rank of its group's hash: each of n ranks sends
and receives about 1 / n of the split. Each rank then ranks its groups and adds two numbers to the reduced sums. A rank
holds its own and the received samples, about 2 / n of the split, unless a single group is larger.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from components.metrics import RankedGroups
from components.tasks.binary.streaming import BinaryMetrics, label_and_logit
from components.tasks.definition import Exchange, Tensors
from components.tasks.ranking import GROUP, RankingTraining


class RankingMetrics(tf.Module):
    """The metrics of ``BinaryMetrics``, and MAP@k of the test split.

    Args:
        training: compute only cheap metrics, without MAP@k.
    """

    def __init__(self, training: bool, parameters: RankingTraining) -> None:
        super().__init__()
        self._binary = BinaryMetrics(with_loss=not training)
        self._training, self._k = training, parameters.map_k
        # Group, score and label of samples, on the host.
        self._rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def update(self, targets: Tensors, outputs: Tensors, kept: Tensors) -> None:
        self._binary.update(targets, outputs, kept)
        if not self._training and GROUP in kept:
            labels, logits = label_and_logit(targets, outputs)
            tf.numpy_function(self._add, [kept[GROUP], logits, labels], [])

    def _add(self, groups: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> None:
        # Copies: TensorFlow reuses the arrays' memory.
        self._rows.append((groups.copy(), scores.copy(), (labels > 0.5).astype(np.int8)))

    def reset(self) -> None:
        self._binary.reset()
        self._rows.clear()

    def totals(self, ranks: Exchange) -> list[tf.Tensor]:
        totals = self._binary.totals(ranks)
        if self._training:
            return totals
        nothing = (np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.int8))
        groups, scores, labels = map(np.concatenate, zip(*(self._rows or [nothing]), strict=True))
        groups, scores, labels = ranks.exchange(groups.astype(np.int64), [groups, scores, labels])
        precision = RankedGroups(labels, scores, groups).average_precision(self._k)
        return [*totals, tf.constant([precision.sum(), len(precision)], tf.float64)]

    def load(self, totals: Sequence[np.ndarray]) -> None:
        """Restores totals of a training, without MAP@k."""
        self._binary.load(totals)

    def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
        """As ``BinaryMetrics.result``; for the test split also ``map``, nan without a group with a click."""
        if self._training:
            return self._binary.result(totals)
        precision, groups = totals[-1].tolist()
        return {"map": precision / groups if groups else float("nan"), **self._binary.result(totals[:-1])}
