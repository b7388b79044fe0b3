"""Test AUC and log loss while training: scored where the data is, reduced as sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import tensorflow as tf

from components.models import Model
from components.models.kernels.host import host_kernels
from components.train.auc import Auc, LogitHistogram, auc_of
from components.train.ranks import Ranks


@dataclass(frozen=True)
class Score:
    """How a model does on a split: AUC, mean log loss in nats, and the number of samples."""

    auc: Auc
    logloss: float
    rows: int


class Scorer:
    """Scores batches with a model and keeps only sums.

    Args:
        model: see components.models.
        ranks: who scores together.
        signature: label and serving features, to [None] or [None, length], integers.
        label: name of the label feature.
        xla: compile the forward pass.
    """

    def __init__(
        self, model: Model, ranks: Ranks, signature: Mapping[str, tf.TensorSpec], label: str, xla: bool = False
    ) -> None:
        self._model, self._ranks, self._label, self._xla = model, ranks, label, xla
        self._histogram = LogitHistogram()
        self._logloss = tf.Variable(0.0, dtype=tf.float64, trainable=False, name="logloss_sum")
        compiled = {"jit_compile": True} if xla else {}
        self._logits = tf.function(self._forward, autograph=False, **compiled)
        self.add = tf.function(self._add, input_signature=[dict(signature)], autograph=False)

    def score(self, batches: Iterable[Mapping[str, tf.Tensor]]) -> Score:
        """Scores a split; every rank gives its share and gets the whole result."""
        self._histogram.reset()
        self._logloss.assign(0.0)
        for batch in batches:
            self.add(batch)
        counts, logloss = self._ranks.sum([self._histogram.counts.value(), self._logloss.value()], name="scores")
        rows = int(tf.reduce_sum(counts))
        return Score(auc_of(counts.numpy()), float(logloss) / rows if rows else float("nan"), rows)

    def _forward(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        with host_kernels(not self._xla):
            return self._model.logits(features, training=False)

    def _add(self, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Adds a batch to the sums and returns its logits, [B] float32."""
        labels = tf.cast(batch[self._label], tf.float32)
        logits = self._logits({name: values for name, values in batch.items() if name != self._label})
        self._histogram.update(labels, logits)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        self._logloss.assign_add(tf.reduce_sum(tf.cast(losses, tf.float64)))
        return logits
