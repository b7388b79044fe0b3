"""What the tasks of a binary outcome share: one logit a sample, whose sigmoid is the probability of label 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from components.errors import KfrecError
from components.steps.parameter import param
from components.tasks.definition import Scores

if TYPE_CHECKING:
    import tensorflow as tf

# Parameter of the evaluate step.
CALIBRATION_BINS = param(20, "Bins of the calibration curve", unit="bins", at_least=2)


def serve_probability(logits: tf.Tensor) -> tf.Tensor:
    """What the exported signature returns."""
    import tensorflow as tf

    return tf.sigmoid(logits)


def require_both_classes(scores: Scores, source: object) -> None:
    """Rejects labels of one class.

    Raises:
        KfrecError: there is one only; the line names ``source``.
    """
    positives = int(np.count_nonzero(scores.labels))
    if positives in (0, len(scores.labels)):
        raise KfrecError(
            f"{source}: all {len(scores.labels)} test samples have label {int(positives > 0)}, so nothing can be "
            "ranked; give a test split with both classes"
        )
