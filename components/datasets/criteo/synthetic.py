"""Synthetic impressions: the distribution of their features, what their labels depend on, and the best possible AUC.

Ids follow a power law as in the public generator, with K - 1 values and g = 1 - exponent:

    id = floor((u (K^g - 1) + 1)^(1/g)) - 1,  u uniform in [0, 1)

so that 0 is the most frequent id. A fixed bijection turns the id of a column into a value of 32 bits. Integers are such
that ln(x + 3) is uniform in ln(3) to ln(3) + 4 before rounding. One in twenty of both is missing.

The probability of a click:

    logit = bias + sum_i w_i z_i + sum_c a_c[id_c] + sum_(c, d) <u_c[id_c], v_d[id_d]>

z_i is ln(x + 3) of four of the integers, centred, 0 where it is missing. c runs over four columns with an effect of
their own, and (c, d) over three pairs of columns whose vectors of four entries interact. These have at most 104
values, so that some hundred thousand impressions suffice to learn them; the other columns are noise.

With a turnover t, an id of a column with K values stands on day d for id + K floor(d t + phase), with a phase in [0, 1)
of each id: every day a share t of the values is replaced by new ones of the same frequency and with other causes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from components.datasets.criteo import PLANTED
from components.datasets.criteo.columns import CATEGORICAL, LABEL, NUMERICAL, write_hexadecimal
from components.metrics import auc_of_histograms
from components.progress import progress

_NUMERICAL = {0: 0.45, 3: -0.35, 6: 0.3, 10: -0.25}
_EFFECTS = (8, 15, 24, 25)
_PAIRS = ((12, 18), (8, 25), (16, 24))
_RANK = 4
_EFFECT, _INTERACTION, _BIAS = 0.45, 0.55, -1.2
_CENTRE = np.log(3.0) + 2.0
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
# The golden ratio's fraction, whose multiples are spread evenly modulo 1.
_PHASE = 0.6180339887498949
# Odd, so that multiplying by them modulo 2**32 is a bijection.
_MIX_1, _MIX_2 = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
_WRITE = pv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")


class Truth:
    """The causes of a data set, drawn from its seed."""

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


@dataclass(frozen=True)
class Impressions:
    """Impressions, one per array row.

    Attributes:
        labels: int8 ``[n]``.
        integers: int64 ``[n, 13]``; negative is missing.
        ids: int64 ``[n, 26]``; -1 is missing. With a turnover they are those of the values, above K - 1, too.
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
    replaced = 1 + math.ceil(parameters.synthetic_days * parameters.synthetic_turnover)
    return Truth([size * replaced for size in cardinalities(parameters.synthetic_values)], parameters.seed)


def draw(parameters: Any, truth: Truth, day: int, block: int, count: int) -> Impressions:
    """Draws the impressions of one block, which depend on the parameters, the day and the block alone."""
    random = np.random.default_rng([parameters.seed, 1, day, block])
    ids = np.empty((count, len(CATEGORICAL)), np.int64)
    for column, size in enumerate(cardinalities(parameters.synthetic_values)):
        drawn = power_law(random.random(count), size, _EXPONENT)
        replaced = np.floor(day * parameters.synthetic_turnover + drawn * _PHASE % 1.0)
        ids[:, column] = drawn + size * replaced.astype(np.int64)
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


def write_synthetic(parameters: Any, folder: Path) -> None:
    """Generates day_0, day_1, ... in ``folder``, all but the last of equal size.

    The same parameters give the same bytes. Some ten thousand impressions are held in memory at a time.
    """
    truth = truth_of(parameters)
    total, days = parameters.synthetic_impressions, parameters.synthetic_days
    with progress("generating impressions", total, "impressions") as bar:
        for day in range(days):
            rows = total // days if day < days - 1 else total - total // days * (days - 1)
            with (folder / f"day_{day}").open("wb") as file:
                for block, first in enumerate(range(0, rows, BLOCK)):
                    count = min(BLOCK, rows - first)
                    pv.write_csv(_lines(draw(parameters, truth, day, block, count)), file, _WRITE)
                    bar.advance(count)


def _lines(impressions: Impressions) -> pa.Table:
    columns = {LABEL: pa.array(impressions.labels)}
    for number, name in enumerate(NUMERICAL):
        integers = impressions.integers[:, number]
        columns[name] = pa.array(integers, mask=integers < 0)
    for number, name in enumerate(CATEGORICAL):
        ids = impressions.ids[:, number]
        texts = write_hexadecimal(values_of(number, ids))
        columns[name] = pc.if_else(pa.array(ids < 0), None, texts) if (ids < 0).any() else texts
    return pa.table(columns)


def best_auc(parameters: Any, impressions: int = 1_000_000) -> float:
    """The AUC of the true probabilities, which no model surpasses but by chance.

    The probability that a random click outranks a random non-click: an expectation over the labels of generated
    impressions; 0.5 with shuffled labels.
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
