"""Shared parts of tasks with a binary outcome: one logit per sample; its sigmoid is the probability of label 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from components.contract import LOGIT, PROBABILITY
from components.errors import KfrecError
from components.parameters import param
from components.tasks.importance import ImportanceEvaluation
from components.tasks.scores import Scores

if TYPE_CHECKING:
    import tensorflow as tf


@dataclass(frozen=True)
class BinaryEvaluation(ImportanceEvaluation):
    """Parameters of the evaluate step."""

    control_samples: int = param(
        50_000,
        "Test samples that tell what the score rests on, scored by the built-in baseline, and with other histories, "
        "empty ones and unknown users where the data have them; 0 leaves that out",
        unit="samples",
        at_least=0,
    )
    baseline_samples: int = param(
        200_000, "Training samples that the built-in baseline is fitted on; 0 leaves it out", unit="samples", at_least=0
    )


@dataclass(frozen=True)
class BinaryDecision:
    """Parameters of the register step."""

    require_baseline: bool = param(
        True,
        "Promote a model only if its primary metric on the test split is above that of the built-in baseline by more "
        "than chance: a logistic regression on counts of the history, or on click rates of the columns' values; "
        "with histories also above the popularity of the last days. Models that are baselines themselves are exempt",
    )


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
