"""Scores, labels and logits of a binary outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from components.contract import LOGIT, PROBABILITY
from components.tasks import Scores, Streaming


def binary_scores(
    labels: np.ndarray,
    probabilities: np.ndarray,
    kept: Mapping[str, np.ndarray] | None = None,
    names: Mapping[str, Mapping[int, str]] | None = None,
) -> Scores:
    """The scores of a model of one label."""
    return Scores({"label": labels}, {PROBABILITY: probabilities}, kept or {}, names or {})


def probabilities_of(scores: Scores) -> np.ndarray:
    """The probabilities of such a model, [n]."""
    return scores.outputs[PROBABILITY]


def update(metrics: Streaming, labels: Any, logits: Any, kept: Mapping[str, tf.Tensor] | None = None) -> None:
    """Adds a batch of labels and logits, [B] each."""
    metrics.update({"label": labels}, {LOGIT: logits}, kept or {})
