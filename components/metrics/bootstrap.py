"""Confidence intervals of an AUC, of a mean, or of the difference of two, by the paired bootstrap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

# Level of the reported intervals.
CONFIDENCE = 0.95
# Units of the rarer class below which there is no interval.
FEWEST = 10
# Of 1 - confidence.
_ROUNDING = 1e-12
_DRAWN_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval.

    Attributes:
        low: NaN without an interval, as ``high`` is.
        units: independent units of the rarer class, such as users with a positive; None if unknown.
    """

    estimate: float
    low: float
    high: float
    units: int | None = field(default=None, compare=False, kw_only=True)

    def metrics(self, name: str) -> dict[str, float | None]:
        """The estimate under the name, and the ends under the name with ``_low`` and ``_high``, None without them."""
        ends = {f"{name}_low": self.low, f"{name}_high": self.high}
        return {name: self.estimate, **{end: None if math.isnan(value) else value for end, value in ends.items()}}


def fewest_units(confidence: float) -> int:
    """The smallest number of units of the rarer class that has an interval.

    It is FEWEST, or more at a level so high that chance alone lets all of them agree too often: without a difference, n
    units agree on one side with the probability 2^-n.
    """
    return max(FEWEST, math.ceil(-math.log2((1 - confidence) / 2 + _ROUNDING)))


def rarer_units(labels: np.ndarray, clusters: np.ndarray | None = None) -> int:
    """The number of units of the class that fewer have: samples, or clusters with a sample of the class.

    Args:
        labels: 0 or 1.
    """
    positive = np.asarray(labels) > 0
    if clusters is None:
        return int(min(positive.sum(), (~positive).sum()))
    return min(len(np.unique(clusters[positive])), len(np.unique(clusters[~positive])))


def percentile_ends(drawn: np.ndarray, units: int, confidence: float) -> tuple[float, float]:
    """The ends of the expanded percentile interval; NaN with fewer units than ``fewest_units``.

    The plain percentile interval of n units is narrow: the resamples vary less than the estimate, by the factor
    (n - 1) / n, and as if their variance was known. The tails are therefore

        Phi(-sqrt(n / (n - 1)) t)     t being Student's quantile of the level with n - 1 degrees of freedom

    such as 0.9 % instead of 2.5 % on either side for 10 units, and 2.1 % for 50.

    Source: Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69, 2015.

    Args:
        drawn: estimates of the resamples; NaN is left out.
        units: of the rarer class.
    """
    if units < fewest_units(confidence):
        return math.nan, math.nan
    from scipy.special import ndtr, stdtrit

    quantile = stdtrit(units - 1, (1 + confidence) / 2)
    tail = float(ndtr(-math.sqrt(units / (units - 1)) * quantile))
    low, high = np.nanquantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def auc_interval(
    labels: np.ndarray,
    scores: np.ndarray,
    rival_scores: np.ndarray | None = None,
    *,
    samples: int = 1000,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    clusters: np.ndarray | None = None,
) -> Interval:
    """Bootstrap interval of an AUC, or of AUC(scores) - AUC(rival_scores) on the same samples.

    Each resample draws samples with replacement and evaluates both models on the same draw, which cancels the common
    variance of the samples. Scores are sorted once; a resample is a reweighting: with w_i the number of draws of
    sample i,

        AUC_w = sum_{i+} w_i * (W-(s_i) + W-[s_i]) / 2 / (W+ * W-)

    where W-(s) and W-[s] are the weights of the negatives below s and at or below s. This is exact, ties included,
    and linear in the number of samples.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 13 and 8 (clusters).

    Args:
        labels: 0 or 1, both present.
        rival_scores: of the other model, if any.
        confidence: level of the interval, such as 0.95.
        clusters: the user of each sample, to draw whole users, because a user's samples are not independent. None
            draws single samples.
    """
    rivals = (scores,) if rival_scores is None else (scores, rival_scores)
    resampled = resampled_auc(labels, rivals, samples=samples, seed=seed, clusters=clusters)
    return resampled.interval(0, None if rival_scores is None else 1, confidence)


@dataclass(frozen=True)
class ResampledAuc:
    """AUCs of several scores of the same samples, on the same bootstrap draws.

    Attributes:
        estimates: on all samples, float64 ``[k]``.
        drawn: of each resample, float64 ``[resamples, k]``; NaN where the draw lacks a class.
        units: of the rarer class, see ``rarer_units``.
    """

    estimates: np.ndarray
    drawn: np.ndarray
    units: int

    def interval(self, which: int, minus: int | None = None, confidence: float = CONFIDENCE) -> Interval:
        """The interval of one AUC, or of its difference to another one.

        Args:
            which: index of the AUC.
            minus: index of the AUC to subtract; None subtracts nothing.
        """
        values, estimate = self.drawn[:, which], self.estimates[which]
        if minus is not None:
            values, estimate = values - self.drawn[:, minus], estimate - self.estimates[minus]
        return Interval(float(estimate), *percentile_ends(values, self.units, confidence), units=self.units)


def resampled_auc(
    labels: np.ndarray,
    scores: Sequence[np.ndarray],
    *,
    samples: int = 1000,
    seed: int = 0,
    clusters: np.ndarray | None = None,
) -> ResampledAuc:
    """The AUC of each of several scores, on all samples and on each bootstrap draw; see ``auc_interval``.

    Args:
        scores: of the same samples, ``[k][n]``.
    """
    labels = np.asarray(labels)
    ranked = [_RankedPairs(labels, np.asarray(each)) for each in scores]
    unit = np.arange(len(labels)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    units = int(unit.max()) + 1
    random = np.random.default_rng(seed)
    times, weights, drawn = np.empty(units), np.empty(len(labels)), np.empty((samples, len(ranked)))
    for index in range(samples):
        times[:] = np.bincount(random.integers(0, units, units, dtype=np.uint32), minlength=units)
        weighted = times.take(unit, out=weights, mode="clip") if clusters is not None else times
        drawn[index] = [pairs.auc(weighted) for pairs in ranked]
    everything = np.ones(len(labels))
    return ResampledAuc(np.array([pairs.auc(everything) for pairs in ranked]), drawn, rarer_units(labels, clusters))


def mean_interval(
    values: np.ndarray,
    *,
    samples: int = 1000,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    clusters: np.ndarray | None = None,
) -> Interval:
    """Bootstrap interval of a mean, such as of a per-group metric or of two models' difference.

    A resample draws n of n values with replacement. The counts of the distinct values are multinomial and suffice for
    the mean, so millions of groups with few distinct values are cheap.

    Units of the value 0, such as users without a hit, or users whom two models serve alike, tell little: the interval
    counts the others as the rarer class.

    Args:
        values: at least one; the other arguments are those of ``auc_interval``.
    """
    if clusters is not None:
        return _clustered_mean(np.asarray(values, np.float64), clusters, samples, confidence, seed)
    distinct, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
    random, total = np.random.default_rng(seed), len(values)
    at_once = max(1, _DRAWN_AT_ONCE // len(distinct))
    means = [
        random.multinomial(total, counts / total, size=min(at_once, samples - first)) @ distinct / total
        for first in range(0, samples, at_once)
    ]
    units = int(counts[distinct != 0].sum())
    ends = percentile_ends(np.concatenate(means), units, confidence)
    return Interval(float(counts @ distinct / total), *ends, units=units)


def _clustered_mean(values: np.ndarray, clusters: np.ndarray, samples: int, confidence: float, seed: int) -> Interval:
    """``mean_interval`` with resamples of whole clusters, which are the ratios of two sums."""
    _, unit, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    sums, units, random = np.bincount(unit, values), len(sizes), np.random.default_rng(seed)
    means = np.empty(samples)
    for index in range(samples):
        drawn = random.integers(0, units, units, dtype=np.uint32)
        means[index] = sums[drawn].sum() / sizes[drawn].sum()
    rarer = int(np.count_nonzero(sums))
    return Interval(float(values.mean()), *percentile_ends(means, rarer, confidence), units=rarer)


class _RankedPairs:
    """The part of an AUC that does not depend on the weights.

    Reuses its buffers: allocating fresh memory costs more than the arithmetic.
    """

    def __init__(self, labels: np.ndarray, scores: np.ndarray) -> None:
        positive, negative = np.flatnonzero(labels > 0), np.flatnonzero(labels <= 0)
        self.positive = positive[np.argsort(scores[positive], kind="stable")]
        self.negative = negative[np.argsort(scores[negative], kind="stable")]
        below, above = scores[self.negative], scores[self.positive]
        self.beaten = np.searchsorted(below, above, side="left")
        self.beaten_or_tied = np.searchsorted(below, above, side="right")
        self.tied = bool(np.any(self.beaten != self.beaten_or_tied))
        self._own, self._won = np.empty(len(positive)), np.empty(len(positive))
        self._drawn, self._up_to = np.empty(len(negative)), np.zeros(len(negative) + 1)

    def auc(self, weights: np.ndarray) -> float:
        """AUC with sample i counted ``weights[i]`` times; nan if a class has no weight."""
        own, up_to = weights.take(self.positive, out=self._own, mode="clip"), self._up_to
        np.cumsum(weights.take(self.negative, out=self._drawn, mode="clip"), out=up_to[1:])
        pairs = own.sum() * up_to[-1]
        if pairs == 0:
            return float("nan")
        won = own @ up_to.take(self.beaten, out=self._won, mode="clip")
        if self.tied:
            won = (won + own @ up_to.take(self.beaten_or_tied, out=self._won, mode="clip")) / 2
        return float(won / pairs)
