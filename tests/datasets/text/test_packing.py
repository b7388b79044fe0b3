"""The pairs of segments: counts as published, and every token at most once."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

import numpy as np
import pytest

from components.datasets.text.pipeline import Packing, Pair

LENGTH = 64


def of_single_tokens(samples: int, seed: int, one_segment: float = 0.1, short: float = 0.05) -> list[Pair]:
    """Samples of one long document whose sentences have one token each, so that a sample has its target's length."""
    pairs = Packing(LENGTH, one_segment, short).pairs(([number] for number in count()), Random(seed))
    return [pair for pair, _ in zip(pairs, range(samples), strict=False)]


def size_of(pair: Pair) -> int:
    return len(pair.first) + len(pair.second) + pair.cut


def within(observed: int, total: int, share: float) -> bool:
    """Within 4.5 standard deviations of a binomial count."""
    return abs(observed - total * share) < 4.5 * (total * share * (1 - share)) ** 0.5


def test_every_token_is_in_one_sample_in_its_order_or_cut_off() -> None:
    pairs = of_single_tokens(2000, seed=1)
    kept = [token for pair in pairs for token in (*pair.first, *pair.second)]
    assert kept == sorted(set(kept))
    assert len(kept) + sum(pair.cut for pair in pairs) == sum(map(size_of, pairs))


def test_a_tenth_of_the_samples_is_one_segment() -> None:
    full = [pair for pair in of_single_tokens(20_000, seed=2) if size_of(pair) == LENGTH]
    assert within(sum(not pair.second for pair in full), len(full), 0.1)


def test_a_twentieth_of_the_samples_aims_at_a_uniform_length() -> None:
    samples = 40_000
    sizes = Counter(map(size_of, of_single_tokens(samples, seed=3)))
    lengths = range(5, LENGTH)
    assert set(sizes) <= {*lengths, LENGTH}
    expected = samples * 0.05 / (LENGTH - 4)
    assert within(samples - sizes[LENGTH], samples, 0.05 * (1 - 1 / (LENGTH - 4)))
    squares = sum((sizes[length] - expected) ** 2 / expected for length in lengths)
    freedom = len(lengths)
    assert squares < freedom + 4.5 * (2 * freedom) ** 0.5  # chi-squared: mean and variance are freedom and twice it


def test_the_first_segment_has_about_half_of_the_target() -> None:
    pairs = of_single_tokens(5000, seed=4, one_segment=0, short=0)
    half = (LENGTH - 3) // 2
    firsts = np.array([len(pair.first) for pair in pairs])
    # A coin decides on each further sentence while the segment is below its half.
    assert set(firsts) == {half - 1, half}
    assert within(int((firsts == half).sum()), len(firsts), 0.5)


@pytest.mark.parametrize(("one_segment", "second"), [(0.0, LENGTH - 3 - 30), (1.0, 0)])
def test_what_exceeds_the_length_is_cut(one_segment: float, second: int) -> None:
    sentences = [list(range(30)), list(range(30, 200))]
    (pair,) = Packing(LENGTH, one_segment, 0.0).pairs(sentences, Random(5))
    kept = LENGTH - 3 if second else LENGTH - 2
    assert [*pair.first, *pair.second] == list(range(kept)) and pair.cut == 200 - kept
    assert second == 0 or pair.second[0] in (30, 60) or len(pair.second) == second


def test_a_document_ends_its_last_sample() -> None:
    packing = Packing(LENGTH, 0.0, 0.0)
    assert [size_of(pair) for pair in packing.pairs([[1] * 40, [2] * 40, [3] * 5], Random(6))] == [80, 5]
    assert list(packing.pairs([], Random(6))) == [] == list(packing.pairs([[]], Random(6)))
