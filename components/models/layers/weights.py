"""Fresh weights that depend on a seed and their own name, and on nothing else."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import tensorflow as tf


class Weights:
    """Makes float32 variables.

    Each variable draws from a counter-based generator keyed by ``(seed, crc32(name))``: the same name and seed give the
    same values on every device and rank, in whatever order variables are made.

    Args:
        seed: any integer.
        scope: prefix of the names.

    Example:
        >>> Weights(seed=1).scope("classifier").glorot("kernel", (80, 200)).shape
        TensorShape([80, 200])
    """

    def __init__(self, seed: int, scope: str = "") -> None:
        self.seed = seed
        self._scope = scope

    def scope(self, name: str) -> Weights:
        """The same seed for the part ``name``."""
        return Weights(self.seed, f"{self._scope}{name}/")

    def uniform(self, name: str, shape: Sequence[int], limit: float) -> tf.Variable:
        """Uniform in ±limit."""
        return tf.Variable(self.uniform_values(name, shape, limit), name=self._scope + name)

    def uniform_values(self, name: str, shape: Sequence[int], limit: float) -> tf.Tensor:
        """What :meth:`uniform` starts from, as a tensor."""
        return tf.random.stateless_uniform(shape, self.key(name), -limit, limit)

    def normal(self, name: str, shape: Sequence[int], deviation: float) -> tf.Variable:
        """Normal with mean 0."""
        values = tf.random.stateless_normal(shape, self.key(name), stddev=deviation)
        return tf.Variable(values, name=self._scope + name)

    def glorot(self, name: str, shape: Sequence[int]) -> tf.Variable:
        """Uniform in ±sqrt(6 / (inputs + outputs)), the last two axes; Glorot and Bengio 2010."""
        return self.uniform(name, shape, math.sqrt(6.0 / (shape[-2] + shape[-1])))

    def glorot_normal(self, name: str, shape: Sequence[int]) -> tf.Variable:
        """Normal, cut at two deviations, of variance 2 / (inputs + outputs), the last two axes; Glorot and Bengio 2010.

        Cutting leaves 0.8796 of a deviation, which is divided out.
        """
        deviation = math.sqrt(2.0 / (shape[-2] + shape[-1])) / 0.87962566103423978
        values = tf.random.stateless_truncated_normal(shape, self.key(name), stddev=deviation)
        return tf.Variable(values, name=self._scope + name)

    def orthogonal(self, name: str, shape: Sequence[int]) -> tf.Variable:
        """Square matrices (the last two axes) with orthonormal rows, evenly distributed; Saxe et al. 2013."""
        normal = tf.random.stateless_normal(shape, self.key(name))
        q, r = tf.linalg.qr(normal)
        return tf.Variable(q * tf.sign(tf.linalg.diag_part(r))[..., tf.newaxis, :], name=self._scope + name)

    def constant(self, name: str, shape: Sequence[int], value: float = 0.0) -> tf.Variable:
        """One value everywhere."""
        return tf.Variable(tf.fill(shape, value), name=self._scope + name)

    def key(self, name: str) -> tf.Tensor:
        """Key of a counter-based generator for the seed and this name, int64 ``[2]``."""
        return tf.constant([self.seed, zlib.crc32((self._scope + name).encode())], tf.int64)
