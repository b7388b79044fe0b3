"""Gathers the rows of a table that a batch reads, and scatter-adds their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from components.models.ops.host import host
from components.models.ops.host.products import GRAIN
from components.models.ops.host.unique_rows import in_order, unique_rows
from components.models.ops.host.vectors import LANES, load, prefetch, store
from components.native.compiled import kernel

# Prefetch distance in rows, which are at random addresses.
_AHEAD = 12
_AT_ONCE = 1024  # rows that are filtered by share before they are added
_ROWS = 1024  # smallest chunk: below this, call overhead dominates


def supports(width: int | None, dtype: tf.DType) -> bool:
    """Whether the kernels support rows of this width and dtype."""
    return dtype == tf.float32 and width is not None and width % GRAIN == 0


def whole(variable: tf.Variable) -> tf.Tensor:
    """All values of a variable, without a copy.

    After a TensorFlow operation on rows of a variable, every read copies; this disables that copy-on-read mode.
    """
    tf.raw_ops.DisableCopyOnRead(resource=variable.handle)
    return tf.convert_to_tensor(variable)


@tf.custom_gradient
def look_up(table: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple]]:
    """The rows ``rows`` ``[R]`` of a table ``[N, width]``; the gradient is ``tf.IndexedSlices``."""

    def gradient(upstream: tf.Tensor) -> tuple[tf.IndexedSlices, None]:
        return tf.IndexedSlices(upstream, rows, tf.shape(table, rows.dtype)), None

    def run(table: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
        return [_copies(table, rows)]

    return host.call(run, [table, rows], [tf.TensorShape([None, table.shape[1]])])[0], gradient


def sum_by_row(gradient: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor]:
    """See ``components.models.ops.rows.sum_by_row``."""
    values = gradient.values
    if gradient.shape[0] is None or values.shape.rank != 2 or not supports(values.shape[-1], values.dtype):
        return NotImplemented
    rows, (positions,) = unique_rows([gradient.indices], gradient.shape[0])
    return rows, sums(values, positions, tf.size(rows))


def sums(values: tf.Tensor, positions: tf.Tensor, count: tf.Tensor | int) -> tf.Tensor:
    """Sums values of equal place (segment sum), ``[count, width]``.

    Args:
        values: float32 ``[N, width]``.
        positions: int32 or int64 ``[N]``, in ``[0, count)``.
        count: int32.
    """

    def run(values: np.ndarray, positions: np.ndarray, count: np.ndarray) -> list[np.ndarray]:
        return [summed(values, positions, int(count))]

    return host.call(run, [values, positions, count], [tf.TensorShape([None, values.shape[1]])])[0]


def zeros(count: int, width: int) -> np.ndarray:
    """Rows of zeros, ``[count, width]``."""
    out = host.floats(count, width)
    host.in_parts(lambda part, first, last: out[first:last].fill(0), count)
    return out


def shares() -> int:
    """Number of shares of a table's rows, one per thread: a power of two, for a cheap remainder."""
    return 1 << (host.threads().bit_length() - 1)


@kernel
def share_of(position, shares):  # type: ignore[no-untyped-def]
    """The share of a row. Adjacent rows have the same share, because processors fetch cache lines in pairs."""
    return position >> 1 & shares - 1


def summed(values: np.ndarray, positions: np.ndarray, count: int) -> np.ndarray:
    """See ``sums``; returns ``values`` if the places are 0, 1, 2, ..."""
    if len(positions) == count and in_order(positions):
        return values
    out = zeros(count, values.shape[1])
    _add_to(out, [values], [positions])
    return out


def _copies(rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Gathers the rows at these places."""
    width = rows.shape[1]
    out = host.floats(positions.size, width)
    flat = rows.reshape(-1), positions.reshape(-1), width, out.reshape(-1)
    host.in_parts(lambda part, first, last: _copy(*flat, first, last), positions.size, least=_ROWS)
    return out


def _add_to(out: np.ndarray, values: Sequence[np.ndarray], positions: Sequence[np.ndarray]) -> None:
    """Scatter-adds rows to ``out``."""
    pairs = [(rows.reshape(-1), at.reshape(-1)) for rows, at in zip(values, positions, strict=True)]

    def add(part: int, first: int, last: int) -> None:
        chosen = np.empty(_AT_ONCE, np.int64)
        for share in range(first, last):
            for rows, at in pairs:
                _add(rows, at, out.shape[1], share, shares(), chosen, out.reshape(-1))

    host.in_parts(add, shares())


@kernel
def _copy(rows, positions, width, out, first, last):  # type: ignore[no-untyped-def]
    """Gathers the rows at ``places[first:last]``."""
    for i in range(first, last):
        if i + _AHEAD < last:
            prefetch(rows, np.int64(positions[i + _AHEAD]) * width)
        for j in range(0, width, LANES):
            store(out, i * width + j, load(rows, np.int64(positions[i]) * width + j))


@kernel
def _add(values, positions, width, share, shares, chosen, out):  # type: ignore[no-untyped-def]
    """Scatter-adds ``values`` to the rows of ``out`` in a share."""
    for begin in range(0, len(positions), len(chosen)):
        count = 0
        for i in range(begin, min(begin + len(chosen), len(positions))):
            # Branch-free: the share of a place is unpredictable.
            chosen[count] = i
            count += np.int64(share_of(np.int64(positions[i]), shares) == share)
        for n in range(count):
            if n + _AHEAD < count:
                prefetch(out, np.int64(positions[chosen[n + _AHEAD]]) * width)
            i = chosen[n]
            for j in range(0, width, LANES):
                at = np.int64(positions[i]) * width + j
                store(out, at, load(out, at) + load(values, i * width + j))
