"""Draws are functions of seed, stream, step and sample."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.models.draws import bits, draws_at, draws_by, uniform

# Draws of a sample: less and more than a counter's four, and multiples of it.
SHAPES = [(), (1,), (2, 3), (8,), (5, 2)]


def drawn(
    shape: tuple[int, ...], samples: int = 6, first: int = 0, step: int = 3, seed: int = 1, **how: bool
) -> np.ndarray:
    def draw(position: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        with draws_at(seed, position):
            return bits("noise", [samples if how else size, *shape])

    position = tf.constant([step, first])
    return tf.function(draw, autograph=False, **how)(position, tf.constant(samples)).numpy()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sample_draws_the_same_in_any_batch(shape: tuple[int, ...]) -> None:
    whole = drawn(shape, 6, first=10)
    assert whole.shape == (6, *shape) and len(np.unique(whole)) == whole.size
    for begin, end in ((0, 1), (1, 4), (4, 6)):
        np.testing.assert_array_equal(drawn(shape, end - begin, first=10 + begin), whole[begin:end])


@pytest.mark.parametrize("shape", SHAPES)
def test_xla_draws_the_same(shape: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(drawn(shape, 5, first=7, jit_compile=True), drawn(shape, 5, first=7))


def test_sizes_that_are_known_later_draw_the_same() -> None:
    def draw(width: tf.Tensor) -> tf.Tensor:
        with draws_at(1, tf.constant([3, 2])):
            return bits("noise", [4, width, 2])

    np.testing.assert_array_equal(tf.function(draw)(tf.constant(3)), drawn((3, 2), 4, first=2))


def test_the_bits_are_those_of_philox() -> None:
    with draws_at(1, tf.constant([5, 2])):
        found = bits("noise", [3, 4]).numpy()
    # The counter of sample 2 of step 5, under the key of seed 1 and the CRC-32 of "noise".
    key, _ = tf.raw_ops.StatelessRandomGetKeyCounter(seed=tf.constant([1, zlib.crc32(b"noise")], tf.int64))
    expected = [philox(int(key[0]), sample, 5) for sample in (2, 3, 4)]
    np.testing.assert_array_equal(found, expected)


def philox(key: int, low: int, high: int) -> list[int]:
    """Philox 4x32-10 of a counter of two halves of 64 bits, after Salmon et al., section 4.2."""
    words = [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [
            (second >> 32) ^ words[1] ^ keys[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ words[3] ^ keys[1],
            first & 0xFFFFFFFF,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words


def test_seed_stream_and_step_each_draw_anew() -> None:
    found = [drawn((100,)), drawn((100,), seed=2), drawn((100,), step=4)]
    with draws_at(1, tf.constant([3, 0])):
        found.append(bits("other noise", [6, 100]).numpy())
    assert len(np.unique(np.stack(found))) > 4 * 600 - 5


def test_uniform_draws_fill_the_interval() -> None:
    with draws_at(1):
        values = uniform("noise", [1000, 10]).numpy()
    assert values.dtype == np.float32 and 0 <= values.min() < 0.01 and 0.99 < values.max() < 1
    assert abs(values.mean() - 0.5) < 0.02
    np.testing.assert_array_equal(values * 2**24, np.floor(values * 2**24))


def test_drawing_outside_of_a_step_is_one_line() -> None:
    draw: Callable = lambda: bits("classifier/dropout", [3, 4])  # noqa: E731
    with pytest.raises(KfrecError, match=r"classifier/dropout: draws at random, .* within components.models.draws"):
        draw()


def drawn_by(values: np.ndarray, shape: tuple[int, ...] = (3, 5), seed: int = 1, stream: str = "noise") -> np.ndarray:
    with draws_by(seed, tf.constant(values)):
        return bits(stream, [len(values), *shape]).numpy()


VALUES = np.random.default_rng(0).integers(0, 30_000, (6, 20))


def test_draws_by_content_are_the_same_in_any_batch_and_place() -> None:
    whole = drawn_by(VALUES)
    assert whole.shape == (6, 3, 5) and len(np.unique(whole)) == whole.size
    np.testing.assert_array_equal(drawn_by(VALUES[[4, 1]]), whole[[4, 1]])
    np.testing.assert_array_equal(drawn_by(VALUES.astype(np.int32)), whole)


def test_xla_draws_the_same_by_content() -> None:
    @tf.function(jit_compile=True)
    def draw(values: tf.Tensor) -> tf.Tensor:
        with draws_by(1, values):
            return bits("noise", [6, 3, 5])

    np.testing.assert_array_equal(draw(tf.constant(VALUES)), drawn_by(VALUES))


def test_content_order_seed_and_stream_each_draw_anew() -> None:
    changed = VALUES.copy()
    changed[:, 7] += 1
    found = [
        drawn_by(VALUES),
        drawn_by(changed),
        drawn_by(VALUES[:, ::-1]),
        drawn_by(VALUES, seed=2),
        drawn_by(VALUES, stream="other"),
    ]
    assert len(np.unique(np.stack(found))) == 5 * VALUES.shape[0] * 15


def test_draws_by_content_are_uniform_and_independent() -> None:
    values = np.random.default_rng(1).integers(0, 30_000, (4000, 8))
    drawn = drawn_by(values, (50,)) / 2.0**32
    assert abs(drawn.mean() - 0.5) < 0.005 and abs(drawn.var() * 12 - 1) < 0.01
    expected = drawn.size / 100
    assert ((np.histogram(drawn, 100, (0, 1))[0] - expected) ** 2 / expected).sum() < 160  # chi-squared, 99 degrees
    for other in (drawn[:, 1:], drawn[1:]):  # the next draw, and the next sample
        pairs = np.corrcoef(drawn[: len(other), : other.shape[1]].ravel(), other.ravel())[0, 1]
        assert abs(pairs) < 4 / np.sqrt(other.size)
