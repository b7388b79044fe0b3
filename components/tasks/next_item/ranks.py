"""Metrics of ranks: HR@K and NDCG@K of samples with one target each."""

from __future__ import annotations

import numpy as np

from components.tasks.scores import Scores


def chosen_samples(scores: Scores) -> np.ndarray:
    """Which samples have an item that a user chose, bool ``[n]``: all, or those of label 1."""
    return scores.labels > 0 if scores.targets else np.ones(scores.rows, bool)


def hits(ranks: np.ndarray, k: int) -> np.ndarray:
    """1 where the target is among the first k, else 0; float64 ``[n]``."""
    return (ranks <= k).astype(np.float64)


def discounted_gains(ranks: np.ndarray, k: int) -> np.ndarray:
    """``1 / log2(1 + rank)`` where the target is among the first k, else 0; float64 ``[n]``."""
    return np.where(ranks <= k, 1 / np.log2(1 + ranks.astype(np.float64)), 0.0)
