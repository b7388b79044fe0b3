"""Synthetic impressions: the distribution of their features, and their labels.

Ids follow a power law as in the public generator, with K - 1 values and g = 1 - exponent:

    id = floor((u (K^g - 1) + 1)^(1/g)) - 1,  u uniform in [0, 1)

so that 0 is the most frequent id. A fixed bijection turns the id of a column into a value of 32 bits. Integers are such
that ln(x + 3) is uniform in ln(3) to ln(3) + 4 before rounding. One in twenty of both is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from components.datasets.criteo.columns import CATEGORICAL, NUMERICAL
from components.datasets.criteo.parameters import PLANTED
from components.datasets.criteo.synthetic.truth import Truth

# Distinct values of the columns of the terabyte that occur at least 15 times, as published.
PUBLISHED = (
    7912889, 33823, 17139, 7339, 20046, 4, 7105, 1382, 63, 5554114, 582469, 245828, 11,
    2209, 10667, 104, 4, 968, 15, 8165896, 2675940, 7156453, 302516, 12022, 97, 35,
)  # fmt: skip
BLOCK = 65_536
MISSING = 0.05
_SPAN = 4.0
_SMALLEST = 3.0
# Of the power law.
_EXPONENT = 1.45
# Odd, so that multiplying by them modulo 2**32 is a bijection.
_MIX_1, _MIX_2 = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)


@dataclass(frozen=True)
class Impressions:
    """Impressions, one per array row.

    Attributes:
        labels: int8 ``[n]``.
        integers: int64 ``[n, 13]``; negative is missing.
        ids: int64 ``[n, 26]``; -1 is missing.
        probabilities: float64 ``[n]``, of a click, given the features.
    """

    labels: np.ndarray
    integers: np.ndarray
    ids: np.ndarray
    probabilities: np.ndarray


def cardinalities(most: int) -> list[int]:
    """Distinct values of each column, at most ``most``."""
    return [min(size, most) for size in PUBLISHED]


def truth_of(parameters: Any) -> Truth:
    """The label model of a data set."""
    return Truth(cardinalities(parameters.synthetic_values), parameters.seed)


def draw(parameters: Any, truth: Truth, day: int, block: int, count: int) -> Impressions:
    """Draws the impressions of one block, which depend on the parameters, the day and the block alone."""
    random = np.random.default_rng([parameters.seed, 1, day, block])
    ids = np.empty((count, len(CATEGORICAL)), np.int64)
    for column, size in enumerate(cardinalities(parameters.synthetic_values)):
        ids[:, column] = power_law(random.random(count), size, _EXPONENT)
    integers = np.rint(_SMALLEST * np.exp(_SPAN * random.random((count, len(NUMERICAL)))) - _SMALLEST).astype(np.int64)
    ids[random.random(ids.shape) < MISSING] = -1
    integers[random.random(integers.shape) < MISSING] = -1
    probabilities = np.full(count, 0.5)
    if parameters.synthetic_labels == PLANTED:
        probabilities = truth.probabilities(integers, ids)
    if parameters.synthetic_shuffled_labels:
        random.shuffle(probabilities)
    labels = (random.random(count) < probabilities).astype(np.int8)
    return Impressions(labels, integers, ids, probabilities)


def power_law(uniform: np.ndarray, values: int, exponent: float) -> np.ndarray:
    """Ids from 0 to ``values - 1``; see the formula above."""
    g = 1.0 - exponent
    ids = np.floor((uniform * ((values + 1.0) ** g - 1.0) + 1.0) ** (1.0 / g)) - 1.0
    return np.clip(ids, 0, values - 1).astype(np.int64)  # rounding may leave the range


def values_of(column: int, ids: np.ndarray) -> np.ndarray:
    """The value of 32 bits of each id of a column, uint32."""
    x = ids.astype(np.uint32) + np.uint32(0x9E3779B9 * (column + 1) % 2**32)
    x = (x ^ (x >> np.uint32(16))) * _MIX_1
    x = (x ^ (x >> np.uint32(15))) * _MIX_2
    return x ^ (x >> np.uint32(16))
