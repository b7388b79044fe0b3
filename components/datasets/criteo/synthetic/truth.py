"""The planted causes of a synthetic click.

    logit = bias + sum_i w_i z_i + sum_c a_c[id_c] + sum_(c, d) <u_c[id_c], v_d[id_d]>

z_i is ln(x + 3) of four of the integers, centred, 0 where it is missing. c runs over four columns with an effect of
their own, and (c, d) over three pairs of columns whose vectors of four entries interact. These have at most 104
values, so that some hundred thousand impressions suffice to learn them; the other columns are noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_NUMERICAL = {0: 0.45, 3: -0.35, 6: 0.3, 10: -0.25}
_EFFECTS = (8, 15, 24, 25)
_PAIRS = ((12, 18), (8, 25), (16, 24))
_RANK = 4
_EFFECT, _INTERACTION, _BIAS = 0.45, 0.55, -1.2
_CENTRE = np.log(3.0) + 2.0


class Truth:
    """The causes of a data set, drawn from its seed.

    Args:
        sizes: distinct values of each column.
        seed: seed of the data set.
    """

    def __init__(self, sizes: Sequence[int], seed: int) -> None:
        random = np.random.default_rng([seed, 0])
        self._effects = {column: random.normal(0, _EFFECT, sizes[column]) for column in _EFFECTS}
        spread = np.sqrt(_INTERACTION / np.sqrt(_RANK))  # so that the dot product's standard deviation is the constant
        self._pairs = [
            (one, other, random.normal(0, spread, (sizes[one], _RANK)), random.normal(0, spread, (sizes[other], _RANK)))
            for one, other in _PAIRS
        ]

    def probabilities(self, integers: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """The probability of a click, float64 ``[n]``.

        Args:
            integers: ``[n, 13]``, below 0 where missing.
            ids: ``[n, 26]``, -1 where missing.
        """
        logits = np.full(len(ids), _BIAS)
        for column, weight in _NUMERICAL.items():
            x = integers[:, column]
            logits += weight * np.where(x < 0, 0.0, np.log(np.maximum(x, 0) + 3.0) - _CENTRE)
        for column, effects in self._effects.items():
            logits += np.append(effects, 0.0)[ids[:, column]]
        for one, other, left, right in self._pairs:
            nothing = np.zeros((1, _RANK))
            u, v = np.vstack([left, nothing])[ids[:, one]], np.vstack([right, nothing])[ids[:, other]]
            logits += np.einsum("ij,ij->i", u, v)
        return 1.0 / (1.0 + np.exp(-logits))
