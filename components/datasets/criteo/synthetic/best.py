"""The best AUC that a model can reach on synthetic impressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from components.datasets.criteo.synthetic.impressions import BLOCK, draw, truth_of
from components.metrics import auc_of_histograms


def best_auc(parameters: Any, impressions: int = 1_000_000) -> float:
    """The AUC of the true probabilities, which no model surpasses but by chance.

    The probability that a random click outranks a random non-click: an expectation over the labels of generated
    impressions; 0.5 with shuffled labels.

    Args:
        parameters: download step parameters.
        impressions: number to average over.
    """
    if parameters.synthetic_shuffled_labels:
        return 0.5
    truth = truth_of(parameters)
    # Blocks of a day that does not exist: more impressions of the same distribution.
    blocks = range(-(-impressions // BLOCK))
    drawn = [draw(parameters, truth, parameters.synthetic_days, block, BLOCK).probabilities for block in blocks]
    return expected_auc(np.concatenate(drawn))


def expected_auc(probabilities: np.ndarray) -> float:
    """Expected AUC of scores that are the true probabilities of labels drawn independently; ties count one half."""
    p = np.sort(probabilities)
    first = np.flatnonzero(np.r_[True, p[1:] != p[:-1]])
    return auc_of_histograms(np.add.reduceat(p, first), np.add.reduceat(1.0 - p, first))[0]
