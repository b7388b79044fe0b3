"""Every number and curve that the evaluation reports, from the outputs for each text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from components.metrics import CONFIDENCE, Interval, auc_interval, percentile_ends, roc_auc, roc_curve
from components.tasks.controls import measure_controls
from components.tasks.definition import Measured
from components.tasks.replaced_token import AUC
from components.tasks.replaced_token.baselines import RESAMPLES, auc_intervals
from components.tasks.scores import Scores
from components.text.outputs import MASKED, MASKED_CORRECT, MASKED_LOSS, REPLACED, REPLACED_LOGIT, REPLACED_WEIGHT

_DRAWN_AT_ONCE = 1 << 22


def measure(scores: Scores, parameters: object) -> Measured:
    """Computes metrics and the ROC curve of replaced and original tokens; intervals are of the bootstrap over texts."""
    replaced, logits = scores.outputs[REPLACED], scores.outputs[REPLACED_LOGIT]
    is_token = replaced >= 0
    labels, values, texts = replaced[is_token], logits[is_token].astype(np.float64), np.nonzero(is_token)[0]
    sums = loss_sums(scores)
    total = sums.sum(0)
    auc = auc_interval(labels, values, samples=RESAMPLES, clusters=texts)
    correct = scores.outputs[MASKED_CORRECT].sum(dtype=np.float64)
    share = float(labels.mean())
    metrics: dict[str, Any] = {
        **loss_interval([sums]).metrics("test_loss"),
        "test_loss_confidence": CONFIDENCE,
        "test_generator_loss": float(total[0] / total[1]),
        "test_discriminator_loss": float(total[2] / total[3]),
        "test_discriminator_loss_of_guessing": -share * float(np.log(share)) - (1 - share) * float(np.log1p(-share)),
        **auc.metrics("test_auc"),
        "test_auc": roc_auc(labels, values),
        "test_masked_accuracy": float(correct / total[1]),
        "test_replaced_share": share,
        "test_rows": scores.rows,
        "test_tokens": int(total[3]),
        "test_masked_tokens": int(total[1]),
    }
    if scores.controlled is not None and (scores.controlled.model.outputs[REPLACED] == 1).any():
        metrics |= measure_controls(scores.controlled, AUC, auc_intervals)
    return Measured(metrics, {"roc": roc_curve(labels, values)})


def loss_sums(scores: Scores) -> np.ndarray:
    """Sums and counts of each text.

    Returns:
        float64 ``[n, 4]``: the losses of the masked tokens and their number, the discriminator's losses and the number
        of tokens.
    """
    replaced, logits = scores.outputs[REPLACED], scores.outputs[REPLACED_LOGIT].astype(np.float64)
    losses = np.where(replaced < 0, 0.0, np.logaddexp(0.0, np.where(replaced == 1, -logits, logits)))
    columns = scores.outputs[MASKED_LOSS], scores.outputs[MASKED], losses.sum(1), (replaced >= 0).sum(1)
    return np.stack(columns, 1).astype(np.float64)


def losses_of(sums: np.ndarray) -> np.ndarray:
    """The loss of texts: the mean over masked tokens plus 50 times the mean over tokens.

    The weight is the published one whatever the model was trained with, so that models can be compared.

    Args:
        sums: of the texts, ``[..., 4]``, as of ``loss_sums``.
    """
    return sums[..., 0] / sums[..., 1] + REPLACED_WEIGHT * sums[..., 2] / sums[..., 3]


def loss_of(scores: Scores, parameters: object) -> float:
    """The loss of all texts."""
    return float(losses_of(loss_sums(scores).sum(0)))


def loss_difference(
    ours: Scores, theirs: Scores, parameters: object, samples: int, confidence: float, seed: int
) -> Interval:
    """Paired bootstrap over texts."""
    return loss_interval([loss_sums(ours), loss_sums(theirs)], samples=samples, confidence=confidence, seed=seed)


def loss_interval(
    models: Sequence[np.ndarray], *, samples: int = 1000, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval:
    """Bootstrap interval of a model's loss, or of the difference of two on the same draws of texts.

    Args:
        models: ``loss_sums`` of one model, or of two whose difference is taken.
    """
    texts, random = len(models[0]), np.random.default_rng(seed)
    drawn = []
    for first in range(0, samples, at_once := max(1, _DRAWN_AT_ONCE // texts)):
        times = random.multinomial(texts, np.full(texts, 1 / texts), size=min(at_once, samples - first))
        drawn.append(_difference([losses_of(times @ sums) for sums in models]))
    ends = percentile_ends(np.concatenate(drawn), texts, confidence)
    return Interval(float(_difference([losses_of(sums.sum(0)) for sums in models])), *ends, units=texts)


def _difference(losses: Sequence[np.ndarray]) -> np.ndarray:
    return losses[0] if len(losses) == 1 else losses[0] - losses[1]
