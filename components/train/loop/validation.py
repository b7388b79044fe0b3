"""The test split while training: scored where the data is, reduced as sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tensorflow as tf

from components.models import Model
from components.models.ops.choice import training_back_end
from components.tasks import TaskDefinition
from components.train.loop.ranks import Ranks


class Scorer:
    """Scores batches with a model and keeps only sums.

    Args:
        model: what to score with.
        task: what its outputs are judged by.
        ranks: who scores together.
        signature: label and serving features, to [None] or [None, length], integers.
        label: name of the label feature.
        xla: compile the forward pass.
    """

    def __init__(
        self,
        model: Model,
        task: TaskDefinition,
        ranks: Ranks,
        signature: Mapping[str, tf.TensorSpec],
        label: str,
        xla: bool = False,
    ) -> None:
        self._model, self._ranks, self._label, self._xla = model, ranks, label, xla
        self._metrics = task.streaming(False)
        compiled = {"jit_compile": True} if xla else {}
        self._logits = tf.function(self._forward, autograph=False, **compiled)
        self.add = tf.function(self._add, input_signature=[dict(signature)], autograph=False)

    def score(self, batches: Iterable[Mapping[str, tf.Tensor]]) -> dict[str, float]:
        """The task's metrics of a split; every rank gives its share and gets the whole result."""
        self._metrics.reset()
        for batch in batches:
            self.add(batch)
        totals = self._ranks.sum(self._metrics.totals(), name="scores")
        return self._metrics.result([total.numpy() for total in totals])

    def _forward(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        with training_back_end(self._xla):
            return self._model.logits(features, training=False)

    def _add(self, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Adds a batch to the sums and returns its logits, [B] float32."""
        labels = tf.cast(batch[self._label], tf.float32)
        logits = self._logits({name: values for name, values in batch.items() if name != self._label})
        self._metrics.update(labels, logits)
        return logits
