"""Initial weights that depend only on a seed and their name."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence

import tensorflow as tf

from components.models.tables.creation import Draw, make_table

# A Philox counter yields four floats.
_FLOATS_A_COUNTER = 4
# Counters that TensorFlow reserves per four values of a truncated normal, for resampling.
_CUT_COUNTERS = 256


# Maps a number of floats, and key, counter and algorithm of the generator, to values.
_DrawFlat = Callable[[int, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


class Weights:
    """Creates float32 variables.

    Each variable uses a counter-based generator keyed by ``(seed, crc32(name))``: the same name and seed give the same
    values on every device and rank, in any order of creation.

    Args:
        scope: prefix of the names.

    Examples:
        >>> Weights(seed=1).scope("classifier").glorot("kernel", (80, 200)).shape
        TensorShape([80, 200])
    """

    def __init__(self, seed: int, scope: str = "") -> None:
        self.seed = seed
        self._scope = scope

    def scope(self, name: str) -> Weights:
        """Weights with the same seed and names prefixed by ``name``."""
        return Weights(self.seed, f"{self._scope}{name}/")

    def path(self, name: str) -> str:
        """The full name of a variable or a stream of draws."""
        return self._scope + name

    def tables(self) -> TableWeights:
        """The same weights for embedding tables, which may be sharded."""
        return TableWeights(self.seed, self._scope)

    def uniform(self, name: str, shape: Sequence[int], limit: float) -> tf.Variable:
        """Uniform in ±limit."""
        return self.drawn(self._scope + name, shape, self.uniform_rows(name, shape, limit))

    def uniform_rows(self, name: str, shape: Sequence[int], limit: float) -> Draw:
        """Draws rows of ``uniform``."""

        def uniform(count: int, key: tf.Tensor, counter: tf.Tensor, alg: tf.Tensor) -> tf.Tensor:
            drawn = tf.raw_ops.StatelessRandomUniformV2(shape=[count], key=key, counter=counter, alg=alg)
            return drawn * (limit + limit) - limit

        return self._rows(name, shape, uniform)

    def normal(self, name: str, shape: Sequence[int], deviation: float) -> tf.Variable:
        """Normal with mean 0."""
        values = tf.random.stateless_normal(shape, self.key(name), stddev=deviation)
        return tf.Variable(values, name=self._scope + name)

    def glorot(self, name: str, shape: Sequence[int]) -> tf.Variable:
        """Uniform in ±sqrt(6 / (inputs + outputs)), the last two axes; Glorot and Bengio 2010."""
        return self.uniform(name, shape, math.sqrt(6.0 / (shape[-2] + shape[-1])))

    def glorot_normal(self, name: str, shape: Sequence[int]) -> tf.Variable:
        """Truncated normal of variance 2 / (inputs + outputs), the last two axes; Glorot and Bengio 2010.

        Truncation at two standard deviations leaves 0.8796 of the deviation, which is divided out.
        """
        return self.truncated_normal(name, shape, math.sqrt(2.0 / (shape[-2] + shape[-1])) / 0.87962566103423978)

    def truncated_normal(self, name: str, shape: Sequence[int], deviation: float) -> tf.Variable:
        """Normal with mean 0; values beyond two standard deviations are drawn again."""

        def cut(count: int, key: tf.Tensor, counter: tf.Tensor, alg: tf.Tensor) -> tf.Tensor:
            drawn = tf.raw_ops.StatelessTruncatedNormalV2(shape=[count], key=key, counter=counter, alg=alg)
            return drawn * deviation

        return self.drawn(self._scope + name, shape, self._rows(name, shape, cut, _CUT_COUNTERS))

    def orthogonal(self, name: str, shape: Sequence[int]) -> tf.Variable:
        """Uniformly distributed square matrices (the last two axes) with orthonormal rows; Saxe et al. 2013."""
        normal = tf.random.stateless_normal(shape, self.key(name))
        q, r = tf.linalg.qr(normal)
        return tf.Variable(q * tf.sign(tf.linalg.diag_part(r))[..., tf.newaxis, :], name=self._scope + name)

    def constant(self, name: str, shape: Sequence[int], value: float = 0.0) -> tf.Variable:
        return self.drawn(self._scope + name, shape, lambda first, count: tf.fill([count, *shape[1:]], value))

    def drawn(self, name: str, shape: Sequence[int], draw: Draw) -> tf.Variable:
        """A variable from the values of its rows; ``name`` is its full name."""
        return tf.Variable(draw(0, shape[0]), name=name)

    def _rows(self, name: str, shape: Sequence[int], draw: _DrawFlat, counters: int = 1) -> Draw:
        """Draws any range of a variable's rows, without drawing the others.

        Args:
            draw: draws flat values from a counter on.
            counters: counters per four values.
        """
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=self.key(name))
        alg = tf.raw_ops.StatelessRandomGetAlg()
        floats = math.prod(shape[1:])

        def rows(first: int, count: int) -> tf.Tensor:
            skipped, rest = divmod(first * floats, _FLOATS_A_COUNTER)
            start = tf.stack([counter[0] + tf.constant(skipped * counters, tf.uint64), counter[1]])
            return tf.reshape(draw(rest + count * floats, key, start, alg)[rest:], [count, *shape[1:]])

        return rows

    def key(self, name: str) -> tf.Tensor:
        """Key of a counter-based generator for the seed and this name, int64 ``[2]``."""
        return tf.constant([self.seed, zlib.crc32((self._scope + name).encode())], tf.int64)


class TableWeights(Weights):
    """Creates embedding tables or this rank's shards, with the same initial values as whole tables."""

    def drawn(self, name: str, shape: Sequence[int], draw: Draw) -> tf.Variable:
        rows, width = shape
        return make_table(name, (rows, width), draw)
