"""The loss that training minimises, on probabilities."""

from __future__ import annotations

import numpy as np

SMALLEST_PROBABILITY = 1e-7


def log_loss(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Mean binary cross-entropy in nats:

        -mean(y * log(p) + (1 - y) * log(1 - p))

    Probabilities are clipped to 1e-7 from 0 and 1, about the resolution of float32 near 1, so that one saturated
    sample does not make the mean infinite.
    """
    p = np.clip(np.asarray(probabilities, np.float64), SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
    return float(-np.mean(np.where(np.asarray(labels) > 0, np.log(p), np.log1p(-p))))
