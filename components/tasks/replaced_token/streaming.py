"""The loss, the AUC and the accuracy while batches are scored: sums over steps and ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from components.contract import LOGIT
from components.tasks.binary.streaming import BinaryMetrics
from components.tasks.definition import Exchange, Tensors
from components.text.outputs import MASKED, MASKED_CORRECT, MASKED_LOSS, REPLACED, REPLACED_LOGIT, REPLACED_WEIGHT


class ReplacedTokenMetrics(tf.Module):
    """Each token is a sample of ``BinaryMetrics``, with the label 1 if it was replaced; sums of the masked tokens."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens = BinaryMetrics(with_loss=True)
        # Of the masked tokens: losses, correct ones, all.
        self.masked = tf.Variable(tf.zeros([3], tf.float64), trainable=False, name="masked_tokens")

    def update(self, targets: Tensors, outputs: Tensors, kept: Tensors) -> None:
        is_token = outputs[REPLACED] >= 0
        replaced, logits = (tf.boolean_mask(outputs[name], is_token) for name in (REPLACED, REPLACED_LOGIT))
        self._tokens.update({REPLACED: replaced}, {LOGIT: logits}, {})
        sums = [tf.reduce_sum(tf.cast(outputs[name], tf.float64)) for name in (MASKED_LOSS, MASKED_CORRECT, MASKED)]
        self.masked.assign_add(tf.stack(sums))

    def reset(self) -> None:
        self._tokens.reset()
        self.masked.assign(tf.zeros_like(self.masked))

    def totals(self, ranks: Exchange) -> list[tf.Tensor]:
        return [*self._tokens.totals(ranks), self.masked.value()]

    def load(self, totals: Sequence[np.ndarray]) -> None:
        self._tokens.load(totals[:-1])
        self.masked.assign(totals[-1])

    def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
        """``loss`` and its parts ``generator_loss`` and ``discriminator_loss``; ``auc`` with ``auc_error_bound``; and
        ``masked_accuracy``."""
        losses, correct, masked = totals[-1].tolist()
        tokens = self._tokens.result(totals[:-1])
        generator = losses / masked if masked else float("nan")
        return {
            "loss": generator + REPLACED_WEIGHT * tokens["logloss"],
            "auc": tokens["auc"],
            "auc_error_bound": tokens["auc_error_bound"],
            "masked_accuracy": correct / masked if masked else float("nan"),
            "generator_loss": generator,
            "discriminator_loss": tokens["logloss"],
        }
