"""Average precision within groups of samples."""

from __future__ import annotations

import numpy as np


class RankedGroups:
    """Samples ranked within their groups, from the highest score down.

    Ties: a metric is its mean over all orders of samples of equal score, as in the AUC. It therefore does not depend on
    the order of the samples, and a constant score gets the metric of random order.

    Args:
        labels: ``[n]``, above 0 is positive.
        scores: ``[n]``, finite.
        groups: ``[n]`` integers, such as the display of each sample.

    Attributes:
        groups: the groups with a positive sample, ascending. Others have no average precision.
        left_out: number of groups without a positive sample.
    """

    def __init__(self, labels: np.ndarray, scores: np.ndarray, groups: np.ndarray) -> None:
        order = np.lexsort((-scores, groups))
        group, score, positive = groups[order], scores[order], np.asarray(labels)[order] > 0
        new_group = np.append(True, group[1:] != group[:-1])[: len(group)]
        new_tie = new_group | np.append(True, score[1:] != score[:-1])[: len(group)]
        first, tie = np.flatnonzero(new_group), np.flatnonzero(new_tie)
        above = np.append(0, np.cumsum(positive, dtype=np.int64))
        size = np.diff(np.append(first, len(group)))
        positives = above[first + size] - above[first]
        counted = positives > 0
        self.groups, self.sizes, self.left_out = group[first][counted], size[counted], int((~counted).sum())
        self._positives = positives[counted]
        # Per block of ties in these groups: its group, and the numbers of samples and positives above and in it.
        of = (np.cumsum(new_group) - 1)[tie]
        tied = np.diff(np.append(tie, len(group)))
        with_positive = counted[of]
        self._of = (np.cumsum(counted) - 1)[of[with_positive]]
        self._above = (tie - first[of])[with_positive]
        self._positives_above = (above[tie] - above[first[of]])[with_positive]
        self._tied = tied[with_positive]
        self._positives_tied = (above[tie + tied] - above[tie])[with_positive]

    def average_precision(self, k: int) -> np.ndarray:
        """Average precision among the first k of each group with a positive sample, float64.

            AP@k = sum_{i <= k} y_i * (positives among the first i) / i / min(k, P)

        With P = 1 positive it is 1 / rank, or 0 from rank k + 1 on. For a block of t tied samples, r of them positive,
        below a others, R of them positive, the mean over all orders of the block has at position j

            r / t * (R + 1 + (j - 1) * (r - 1) / (t - 1)) / (a + j)

        Source: McSherry and Najork, "Computing information retrieval performance measures efficiently in the presence
        of tied scores", ECIR 2008.

        Args:
            k: number of positions, at least 1.
        """
        harmonic = np.append(0.0, np.cumsum(1.0 / np.arange(1, k + 1)))
        a, t, r = self._above, self._tied, self._positives_tied
        counted = np.clip(k - a, 0, t)
        slope = (r - 1) / np.maximum(t - 1, 1)
        inverse = harmonic[np.minimum(a + counted, k)] - harmonic[np.minimum(a, k)]
        parts = r / t * (slope * counted + (self._positives_above + 1 - slope * (a + 1)) * inverse)
        sums = np.bincount(self._of, weights=parts, minlength=len(self.groups))
        return sums / np.minimum(self._positives, k)

    def mean(self, k: int) -> float:
        """MAP@k: the mean of ``average_precision``, nan without a group with a positive sample."""
        return float(self.average_precision(k).mean()) if len(self.groups) else float("nan")
