"""Confidence interval of an AUC by its analytic variance: one sort instead of hundreds of bootstrap draws."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from components.metrics.bootstrap import CONFIDENCE, Interval


def delong_interval(positive: np.ndarray, scores: np.ndarray, units: np.ndarray) -> Interval:
    """Interval of one AUC from its structural components, on the logit scale, which keeps it within 0 and 1.

    The component of a positive is the share of negatives below it, that of a negative the share of positives above it,
    ties counted half. With P positives and N negatives, a_c and b_c the sums of (component - AUC) over the positives
    and the negatives of cluster c, and C+, C- and C the numbers of clusters with positives, negatives and either,

        var = C+ / (C+ - 1) sum a_c^2 / P^2 + C- / (C- - 1) sum b_c^2 / N^2 + 2 C / (C - 1) sum a_c b_c / (P N)

    If the variance is 0, for example with perfectly ordered pairs, the exact binomial bound of the smaller class is
    used. The level is CONFIDENCE.

    Source: Obuchowski, "Nonparametric analysis of clustered ROC curve data", Biometrics 53, 1997; with a cluster a
    sample it is DeLong, DeLong and Clarke-Pearson, Biometrics 44, 1988. The logit scale: Pepe, "The Statistical
    Evaluation of Medical Tests", 2003, section 5.2.

    Args:
        positive: whether each sample is one.
        units: cluster of each sample, such as its user; small integers, possibly with gaps. At least two clusters must
            have positives, and two negatives.
    """
    above, below = scores[positive], scores[~positive]
    of_positives = _share_below(below, above)
    of_negatives = 1.0 - _share_below(above, below)
    auc = float(of_positives.mean())
    count = int(units.max()) + 1
    a = np.bincount(units[positive], of_positives - auc, count) / len(above)
    b = np.bincount(units[~positive], of_negatives - auc, count) / len(below)
    variance = (
        _corrected(units[positive]) * (a @ a) + _corrected(units[~positive]) * (b @ b) + 2 * _corrected(units) * (a @ b)
    )
    tail = (1 - CONFIDENCE) / 2
    if variance <= 0 or not 0 < auc < 1:
        bound = tail ** (1 / min(len(above), len(below)))
        return Interval(auc, auc * bound, 1 - (1 - auc) * bound)
    logit = math.log(auc / (1 - auc))
    width = NormalDist().inv_cdf(1 - tail) * math.sqrt(variance) / (auc * (1 - auc))
    return Interval(auc, _logistic(logit - width), _logistic(logit + width))


def delong_difference(positive: np.ndarray, scores: np.ndarray, others: np.ndarray) -> Interval:
    """Interval of the AUC of scores minus that of other scores of the same samples (DeLong et al. 1988).

    The components of both are subtracted sample by sample; with the differences a_i of the P positives and b_j of the N
    negatives, centred, var = sum a_i^2 / (P (P - 1)) + sum b_j^2 / (N (N - 1)).

    Args:
        positive: whether each sample is one; at least two are, and two are not.
    """
    differences = []
    for own, opposite, sign in ((positive, ~positive, 1.0), (~positive, positive, -1.0)):
        one, other = (sign * _share_below(each[opposite], each[own]) for each in (scores, others))
        differences.append(one - other)
    a, b = differences
    width = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return Interval(float(a.mean()), float(a.mean()) - width, float(a.mean()) + width)


def _share_below(others: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Share of the others below each score, ties counted half."""
    ranked = np.sort(others)
    beaten = np.searchsorted(ranked, scores, side="left") + np.searchsorted(ranked, scores, side="right")
    return np.asarray(beaten / (2 * len(ranked)))


def _corrected(units: np.ndarray) -> float:
    count = int(np.count_nonzero(np.bincount(units)))
    return count / (count - 1)


def _logistic(value: float) -> float:
    """The logistic function without overflow."""
    return 0.5 * (1 + math.tanh(value / 2))
