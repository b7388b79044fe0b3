"""Shared parts of tasks with a binary outcome: one logit per sample; its sigmoid is the probability of label 1."""

from __future__ import annotations

import numpy as np

from components.errors import KfrecError
from components.steps.parameter import param
from components.tasks.definition import Scores

# Parameter of the evaluate step.
CALIBRATION_BINS = param(20, "Bins of the calibration curve", unit="bins", at_least=2)


def require_both_classes(scores: Scores, source: object) -> None:
    """Rejects labels of one class.

    Raises:
        KfrecError: there is only one class; the message names ``source``.
    """
    positives = int(np.count_nonzero(scores.labels))
    if positives in (0, len(scores.labels)):
        raise KfrecError(
            f"{source}: all {len(scores.labels)} test samples have label {int(positives > 0)}, so nothing can be "
            "ranked; give a test split with both classes"
        )
