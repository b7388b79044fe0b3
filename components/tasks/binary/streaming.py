"""Metrics of a binary outcome without gathering logits: histograms by label, summed over steps and ranks.

Bins have a constant relative width of 2^-14 between 2^-12 and 64 on either side of zero, taken from the bits of the
float32, so the resolution does not depend on the scale of the logits. Samples in a bin count as ties, so the exact AUC
differs from the computed one by at most the sum over bins of positives * negatives / 2, divided by all pairs. Zero is a
bin boundary, so the accuracy is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from components.contract import LOGIT, only_label
from components.errors import KfrecError
from components.metrics import auc_of_histograms
from components.tasks.definition import Exchange, Tensors

_MANTISSA_BITS = 14
_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -12, 6
_SIDE = (_LARGEST_EXPONENT - _SMALLEST_EXPONENT) << _MANTISSA_BITS
_FIRST_KEY = (127 + _SMALLEST_EXPONENT) << _MANTISSA_BITS
BINS = 2 * _SIDE


class BinaryMetrics(tf.Module):
    """Counts of logits by label and bin, and the sum of the log losses, kept on the device.

    Counts are float64 [2 * BINS], the bins of label 0, then those of label 1: exact up to 2^53, with in-place addition
    on every device.

    Args:
        with_loss: whether to compute the log loss.
    """

    def __init__(self, with_loss: bool) -> None:
        super().__init__()
        self.counts = tf.Variable(tf.zeros([2 * BINS], tf.float64), trainable=False, name="logit_histogram")
        self.loss = tf.Variable(tf.zeros([1], tf.float64), trainable=False, name="logloss_sum") if with_loss else None

    def update(self, targets: Tensors, outputs: Tensors, kept: Tensors) -> None:
        """Adds samples with one target, 0 or 1, [B], and the output LOGIT, [B] float32."""
        labels, logits = label_and_logit(targets, outputs)
        index = bins(logits) + BINS * tf.cast(labels > 0.5, tf.int64)
        self.counts.scatter_add(tf.IndexedSlices(tf.ones_like(index, tf.float64), index))
        if self.loss is not None:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
            self.loss.assign_add(tf.reduce_sum(tf.cast(losses, tf.float64), keepdims=True))

    def reset(self) -> None:
        for variable in self._sums():
            variable.assign(tf.zeros_like(variable))

    def totals(self, ranks: Exchange) -> list[tf.Tensor]:
        return [variable.value() for variable in self._sums()]

    def load(self, totals: Sequence[np.ndarray]) -> None:
        for variable, total in zip(self._sums(), totals, strict=True):
            variable.assign(total)

    def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
        """``auc`` with ``auc_error_bound``, its largest distance from the exact AUC; ``accuracy`` at a threshold of
        1/2; and ``logloss``.
        """
        counts, rows = totals[0], totals[0].sum()
        auc, error_bound = auc_of_histograms(counts[BINS:], counts[:BINS])
        correct = counts[:_SIDE].sum() + counts[BINS + _SIDE :].sum()  # a logit of 0 counts as label 1
        accuracy = float(correct / rows) if rows else float("nan")
        metrics = {"auc": auc, "auc_error_bound": error_bound, "accuracy": accuracy}
        if self.loss is not None:
            metrics["logloss"] = float(totals[1][0]) / rows if rows else float("nan")
        return metrics

    def _sums(self) -> list[tf.Variable]:
        return [self.counts] if self.loss is None else [self.counts, self.loss]


def label_and_logit(targets: Tensors, outputs: Tensors) -> tuple[tf.Tensor, tf.Tensor]:
    """The label and the logit of a batch, both [B] float32.

    Raises:
        KfrecError: the data have not one label, or the model has no logit.
    """
    if LOGIT not in outputs:
        raise KfrecError(
            f"the task reads the output {LOGIT}, and the model returns {', '.join(outputs)}; choose another task"
        )
    return tf.cast(only_label(targets), tf.float32), outputs[LOGIT]


def bins(logits: tf.Tensor) -> tf.Tensor:
    """The bin of each logit, [B] int64 in 0..BINS-1, increasing with the logit; int32 would run on the host."""
    bits = tf.cast(tf.bitcast(tf.abs(logits), tf.int32), tf.int64)
    magnitude = tf.bitwise.right_shift(bits, 23 - _MANTISSA_BITS)
    distance = tf.clip_by_value(magnitude - _FIRST_KEY, 0, _SIDE - 1)
    return tf.where(logits < 0, _SIDE - 1 - distance, _SIDE + distance)
