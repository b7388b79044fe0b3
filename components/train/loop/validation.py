"""Evaluation during training: each rank scores its share, and the ranks reduce sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.models import Model
from components.models.model import outputs_of
from components.models.ops.choice import training_back_end
from components.tasks import Kept, ReadingTables, TaskDefinition
from components.train.loop.ranks import Ranks


class Scorer:
    """Scores batches with a model and accumulates the task's metrics.

    Args:
        signature: of ``unpack``'s argument; by default targets, serving features and kept columns by name, [None] or
            [None, length].
        targets: the features of the channel ``label``, to their type in ``components.tasks.Streaming.update``.
        kept: the task's kept columns present in the data, to their features.
        parameters: the train step's parameters of the task.
        rows: size to which ``score`` pads this rank's batches; 0 for no padding.
        unpack: a transferred batch to its features (``components.train.loop.transfer.Transfer.features``).

    Attributes:
        run: maps a batch to the model's outputs.
    """

    def __init__(
        self,
        model: Model,
        task: TaskDefinition,
        ranks: Ranks,
        signature: Any,
        targets: Mapping[str, tf.DType],
        kept: Mapping[Kept, str],
        parameters: Any,
        xla: bool = False,
        rows: int = 0,
        unpack: Callable[[Any], dict[str, tf.Tensor]] = dict,
        tables: Mapping[str, Path] | None = None,
    ) -> None:
        self._model, self._ranks, self._targets, self._kept, self._xla = model, ranks, targets, kept, xla
        self._rows, self._unpack = rows, unpack
        self._metrics = task.streaming(False, parameters)
        if isinstance(self._metrics, ReadingTables):
            self._metrics.read_tables(tables or {})
        compiled = {"jit_compile": True} if xla else {}
        self._outputs = tf.function(self._forward, autograph=False, **compiled)
        self.run = tf.function(
            lambda inputs: self._scores(self._unpack(inputs)), input_signature=[signature], autograph=False
        )
        self._add = tf.function(self._score_and_add, input_signature=[signature], autograph=False)

    def score(self, batches: Iterable[Any]) -> dict[str, float]:
        """The task's metrics on a split; each rank passes its share and gets the reduced result."""
        self._metrics.reset()
        for batch in batches:
            self._add(batch)
        totals = self._ranks.sum(self._metrics.totals(self._ranks), name="scores")
        return self._metrics.result([total.numpy() for total in totals])

    def _forward(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        with training_back_end(self._xla):
            return outputs_of(self._model, features)

    def _scores(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return self._outputs({name: batch[name] for name in self._model.serving_features})

    def _score_and_add(self, inputs: Any) -> None:
        batch = self._unpack(inputs)
        scored, rows = padded(batch, self._rows)[0] if self._rows else batch, tf.shape(next(iter(batch.values())))[0]
        outputs = {name: values[:rows] for name, values in self._scores(scored).items()}
        self._metrics.update(targets_of(batch, self._targets), outputs, kept_columns(batch, self._kept))


def targets_of(batch: Mapping[str, tf.Tensor], targets: Mapping[str, tf.DType]) -> dict[str, tf.Tensor]:
    """The targets of a batch, by name and in their types."""
    return {name: tf.cast(batch[name], kind) for name, kind in targets.items()}


def kept_columns(batch: Mapping[str, tf.Tensor], kept: Mapping[Kept, str]) -> dict[str, tf.Tensor]:
    """The kept columns present in a batch, by name, [B]."""
    return {
        column.name: tf.math.count_nonzero(batch[feature], 1) if column.counted else batch[feature]
        for column, feature in kept.items()
        if feature in batch
    }


def padded(batch: Mapping[str, tf.Tensor], rows: int) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Pads a batch with repetitions of its own samples, which look up no additional rows.

    Args:
        batch: by feature, ``[B]`` or ``[B, length]``; if B is 0, the padding is zeros.
        rows: at least B.

    Returns:
        The features, ``[rows]`` or ``[rows, length]``, and a float32 mask ``[rows]``: 1 for the batch's samples, which
        come first, and 0 for padding.
    """
    values = list(batch.values())
    if all(value.shape[0] == rows for value in values):
        return dict(batch), tf.ones([rows])
    # int64: TensorFlow places int32 operations on the host.
    own, positions = tf.shape(values[0], tf.int64)[0], tf.range(rows, dtype=tf.int64)

    def repeated() -> list[tf.Tensor]:
        wanted = positions % tf.maximum(own, 1)
        return [tf.gather(tf.concat([v, tf.zeros([1, *v.shape[1:]], v.dtype)], 0), wanted) for v in values]

    # The shape is in host memory, so the condition does not synchronize with the device.
    chosen = tf.cond(own < rows, repeated, lambda: [tf.identity(value) for value in values])
    full = [tf.ensure_shape(new, [rows, *value.shape[1:]]) for new, value in zip(chosen, values, strict=True)]
    return dict(zip(batch, full, strict=True)), tf.cast(positions < own, tf.float32)
