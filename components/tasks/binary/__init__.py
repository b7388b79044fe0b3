"""Shared parts of tasks with a binary outcome: one logit per sample; its sigmoid is the probability of label 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from components.contract import LOGIT, PROBABILITY
from components.errors import KfrecError
from components.parameters import param
from components.tasks.scores import Scores

if TYPE_CHECKING:
    import tensorflow as tf

# Parameter of the evaluate step.
CALIBRATION_BINS = param(20, "Bins of the calibration curve", unit="bins", at_least=2)


def served(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The served outputs, of a model with the output LOGIT: float32 probabilities are equal from logits of 17 on."""
    import tensorflow as tf

    return {PROBABILITY: tf.sigmoid(outputs[LOGIT]), LOGIT: outputs[LOGIT]}


def require_both_classes(scores: Scores, source: object) -> None:
    """Rejects labels other than 0 and 1, or of one class.

    Raises:
        KfrecError: there are; the message names ``source``.
    """
    labels = scores.labels
    if not np.isin(labels, (0, 1)).all():
        other = labels[~np.isin(labels, (0, 1))][0]
        raise KfrecError(f"{source}: a test sample has label {other}, not 0 or 1; correct it, or choose another task")
    positives = int(np.count_nonzero(labels))
    if positives in (0, len(labels)):
        raise KfrecError(
            f"{source}: all {len(labels)} test samples have label {int(positives > 0)}, so nothing can be "
            "ranked; give a test split with both classes"
        )
