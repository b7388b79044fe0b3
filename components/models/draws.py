"""Random draws of a training step: functions of seed, stream, step and sample.

A draw does not depend on how the samples of a step are divided into ranks and batches, and a training that resumes
draws what it would have drawn. Outside of a training, draws can be functions of what a sample contains: 32-bit words
are mixed. The bits of a training are those of Philox 4x32-10 (Salmon et al., 2011,
https://doi.org/10.1145/2063384.2063405), keyed by seed and stream; the counter's upper half is the step, and its lower
half numbers the draws of the step's samples. All are the same on every device, compiled by XLA or
not.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from components.errors import KfrecError
from components.models.ops.choice import fused

# The first sample of a training. int32, which TensorFlow keeps in the host's memory.
START = np.zeros(2, np.int32)

_PHILOX = 1
# 32-bit draws of a counter.
_WORDS = 4


class _Position(NamedTuple):
    seed: int
    position: tf.Tensor


class _Samples(NamedTuple):
    seed: int
    keys: tf.Tensor  # uint32 [B]


_position: ContextVar[_Position | _Samples | None] = ContextVar("position_of_draws", default=None)


@contextmanager
def draws_at(seed: int, position: tf.Tensor | np.ndarray = START) -> Iterator[None]:
    """Layers and models called within draw for these samples.

    Args:
        position: int32 ``[2]``: number of the step, and index of this batch's first sample within the step's samples,
            those of all ranks. Steps start at 0.
    """
    token = _position.set(_Position(seed, tf.convert_to_tensor(position, tf.int32)))
    try:
        yield
    finally:
        _position.reset(token)


@contextmanager
def draws_of_step() -> Iterator[None]:
    """Layers and models called within draw for the step: the same on all ranks and for all batches of its samples.

    For what its samples share, such as which rows of a table are dropped. Without effect outside of ``draws_at``.
    """
    here = _position.get()
    if isinstance(here, _Position):
        with tf.device("CPU"):  # where the position is
            here = _Position(here.seed, here.position * tf.constant([1, 0]))
    token = _position.set(here)
    try:
        yield
    finally:
        _position.reset(token)


@contextmanager
def draws_by(seed: int, values: tf.Tensor) -> Iterator[None]:
    """Layers and models called within draw for samples by what these contain, such as in an evaluation.

    Equal samples draw equal bits, in any batch, and in every model that has the same seed.

    Args:
        values: of each sample, such as its ids, integers ``[B, length]``; without order, they are numbered.
    """
    length = values.shape[1]
    places = tf.range(length) if length is not None else tf.range(tf.shape(values)[1])
    keys = tf.reduce_sum(_mixed(tf.cast(values, tf.uint32) + _spread(places)), 1)
    token = _position.set(_Samples(seed, keys))
    try:
        yield
    finally:
        _position.reset(token)


def bits(stream: str, shape: Sequence[int | tf.Tensor]) -> tf.Tensor:
    """Uniformly distributed bits.

    Args:
        stream: name of these draws, such as that of the layer; equal names draw equal bits.
        shape: of the result. The first axis is the batch's samples; the others must be equal on all ranks.

    Returns:
        uint32, of this shape.

    Raises:
        KfrecError: called outside of a training step.
    """
    here = _position.get()
    if here is None:
        raise KfrecError(
            f"{stream}: draws at random, which needs a training step; call the model within "
            "components.models.draws.draws_at(seed, position)"
        )
    samples, *others = shape
    static = all(isinstance(each, int) for each in others)
    a_sample: Any = math.prod(others) if static else tf.reduce_prod(tf.stack([tf.cast(n, tf.int64) for n in others]))
    if isinstance(here, _Samples):
        return tf.reshape(_by_sample(here, stream, a_sample), shape)
    with tf.name_scope("draws"):
        with tf.device("CPU"):  # where the position is
            step, first = tf.unstack(tf.cast(here.position, tf.int64))
            begun = first * a_sample
            counter = tf.cast(tf.stack([begun // _WORDS, step]), tf.uint64)
        if static and a_sample % _WORDS == 0:  # each sample begins with a counter
            return _drawn(here, stream, shape, counter)
        with tf.device("CPU"):
            count = tf.cast(samples, tf.int64) * a_sample
            begin, length = tf.reshape(begun % _WORDS, [1]), tf.reshape(count, [1])
        flat = _drawn(here, stream, length + _WORDS - 1, counter)
        return tf.reshape(tf.slice(flat, begin, length), shape)


def uniform(stream: str, shape: Sequence[int | tf.Tensor]) -> tf.Tensor:
    """Uniform in [0, 1), multiples of 2^-24; for a model's own draws, such as masked positions.

    Args:
        stream: as for ``bits``.
        shape: as for ``bits``.

    Returns:
        float32, of this shape.

    Raises:
        KfrecError: called outside of a training step.

    Examples:
        >>> with draws_at(seed=1):
        ...     both = uniform("positions", [2, 3])
        >>> with draws_at(seed=1, position=np.array([0, 1], np.int32)):
        ...     second = uniform("positions", [1, 3])
        >>> bool(tf.reduce_all(both[1:] == second))
        True
    """
    return _unit(bits(stream, shape))


@fused
def _unit(drawn: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.bitwise.right_shift(drawn, tf.constant(8, tf.uint32)), tf.float32) * 2.0**-24


def _by_sample(here: _Samples, stream: str, count: int | tf.Tensor) -> tf.Tensor:
    """Bits of each sample, uint32 ``[B, count]``."""
    (key,) = _key(here.seed, stream)
    low, high = (tf.constant(word, tf.uint32) for word in (key & 0xFFFFFFFF, key >> 32))
    with tf.name_scope("draws"):
        begun = _mixed(tf.bitwise.bitwise_xor(here.keys, low))[:, tf.newaxis]
        return _mixed(tf.bitwise.bitwise_xor(_mixed(begun + _spread(tf.range(count))), high))


def _spread(numbers: tf.Tensor) -> tf.Tensor:
    """Multiples of an odd constant, of which the first ones are far apart."""
    return tf.cast(numbers, tf.uint32) * tf.constant(0x9E3779B9, tf.uint32)


def _mixed(words: tf.Tensor) -> tf.Tensor:
    """A bijection of 32-bit words in which each bit depends on all; "lowbias32" of the Hash Prospector, Wellons 2018,
    https://nullprogram.com/blog/2018/07/31/"""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        shifted = tf.bitwise.right_shift(words, tf.constant(shift, tf.uint32))
        words = tf.bitwise.bitwise_xor(words, shifted) * tf.constant(factor, tf.uint32)
    return tf.bitwise.bitwise_xor(words, tf.bitwise.right_shift(words, tf.constant(16, tf.uint32)))


def _drawn(here: _Position, stream: str, shape: Sequence[int | tf.Tensor] | tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    key = tf.constant(_key(here.seed, stream), tf.uint64)
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape, key=key, counter=counter, alg=_PHILOX, dtype=tf.uint32
    )


@lru_cache(maxsize=1024)
def _key(seed: int, stream: str) -> tuple[int]:
    """The key of a seed and a stream, mixed so that similar ones have unlike keys."""
    with tf.init_scope(), tf.device("CPU"):
        words = tf.constant([seed, zlib.crc32(stream.encode())], tf.int64)
        key, _ = tf.raw_ops.StatelessRandomGetKeyCounter(seed=words)
        return (int(key.numpy()[0]),)
