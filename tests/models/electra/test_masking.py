"""Masking as published: exact counts, and frequencies by chi-squared."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from components.models.draws import draws_at
from components.models.electra.masking import mask_tokens, most_masked, replaced_by, sampled_tokens
from tests.models.electra.conftest import LENGTH, SPECIAL, MakeTexts


def masked(tokens: np.ndarray, share: float = 0.15, mask_token_share: float = 0.85, first: int = 0):
    with draws_at(1, np.array([3, first], np.int32)):
        return mask_tokens(tf.constant(tokens), SPECIAL, share, mask_token_share)


@pytest.mark.parametrize(("length", "most"), [(128, 19), (512, 79), (5, 1)])
def test_the_most_masked_tokens_are_the_published_ones(length: int, most: int) -> None:
    assert most_masked(length, 0.15) == most


def test_the_share_of_masked_tokens_is_exact(make_texts: MakeTexts) -> None:
    lengths = [5, 10, 20, 27, 33, LENGTH, LENGTH]
    texts = make_texts(7, lengths=lengths)["input_ids"]
    found = masked(texts)
    expected = [min(max(round(0.15 * length), 1), most_masked(LENGTH, 0.15)) for length in lengths]
    np.testing.assert_array_equal(found.is_masked.numpy().sum(1), expected)
    for row, count in enumerate(expected):
        places = found.positions[row, :count].numpy()
        assert len(set(places)) == count
        assert not np.isin(texts[row, places], [SPECIAL.pad, SPECIAL.cls, SPECIAL.sep, SPECIAL.mask]).any()
        np.testing.assert_array_equal(found.originals[row, :count], texts[row, places])
        kept = np.setdiff1d(np.arange(LENGTH), places)
        np.testing.assert_array_equal(found.inputs.numpy()[row, kept], texts[row, kept])


def test_a_text_of_special_tokens_has_nothing_to_mask() -> None:
    texts = np.array([[SPECIAL.cls, SPECIAL.sep] + [0] * 38, [0] * 40], np.int32)
    found = masked(texts)
    assert not found.is_masked.numpy().any()
    np.testing.assert_array_equal(found.inputs, texts)
    np.testing.assert_array_equal(replaced_by(texts, found, tf.fill([2, 6], 50)), texts)


def test_every_token_is_masked_as_often_and_most_become_the_mask_token() -> None:
    rows = 6000
    tokens = np.tile(np.arange(5, 25, dtype=np.int32), (rows, 1))  # 20 tokens, of which 3 are masked
    found = masked(tokens)
    places = found.positions.numpy()[found.is_masked.numpy()]
    assert len(places) == 3 * rows
    counts = np.bincount(places, minlength=20)
    # Of 20 places without replacement: the variance of a count is (1 - 3/20) of a multinomial's, over 19 degrees.
    chi_squared = ((counts - 0.15 * rows) ** 2 / (0.15 * rows * 0.85)).sum() * 19 / 20
    assert chi_squared < 45  # exceeded once in a thousand
    became = (found.inputs.numpy() == SPECIAL.mask).sum()
    assert abs(became - 0.85 * 3 * rows) < 4 * np.sqrt(3 * rows * 0.85 * 0.15)


def test_samples_follow_the_softmax() -> None:
    rows, logits = 20_000, np.array([1.0, -2.0, 0.5, 3.0, -1e9, 2.0, 0.0, -1.0], "f")
    with draws_at(1):
        found = sampled_tokens(tf.tile(tf.constant(logits)[np.newaxis, np.newaxis], [rows, 2, 1])).numpy()
    shares = np.exp(logits - np.log(np.exp(logits.astype("d")).sum()))
    for place in range(2):
        counts = np.bincount(found[:, place], minlength=8)
        assert counts[4] == 0
        possible = shares > 0
        expected = rows * shares[possible]
        assert ((counts[possible] - expected) ** 2 / expected).sum() < 23  # 6 degrees, once in a thousand
    assert np.corrcoef(found[:, 0], found[:, 1])[0, 1] < 4 / np.sqrt(rows)


def test_a_text_is_masked_alike_in_any_batch(make_texts: MakeTexts) -> None:
    texts = make_texts(9)["input_ids"]
    whole, part = masked(texts), masked(texts[4:], first=4)
    for one, other in zip(whole, part, strict=True):
        np.testing.assert_array_equal(one[4:], other)
    assert not np.array_equal(masked(texts[4:]).positions, part.positions)


def test_samples_replace_the_masked_tokens_alone(make_texts: MakeTexts) -> None:
    texts = make_texts(5)["input_ids"]
    found = masked(texts)
    samples = np.full(found.positions.shape, 98)
    expected = texts.copy()
    for row in range(5):
        expected[row, found.positions[row].numpy()[found.is_masked[row].numpy()]] = 98
    np.testing.assert_array_equal(replaced_by(tf.constant(texts), found, tf.constant(samples)), expected)


def test_large_ids_stay_exact() -> None:
    tokens = np.full((4, 20), 1_000_003, np.int32)
    found = masked(tokens)
    assert (found.originals.numpy()[found.is_masked.numpy()] == 1_000_003).all()
    replaced = replaced_by(tf.constant(tokens), found, tf.fill(found.positions.shape, 7_000_001)).numpy()
    assert set(np.unique(replaced)) == {1_000_003, 7_000_001}
