"""Gathers rows of an embedding table, and applies their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import tensorflow as tf

from components.models.ops.choice import operation
from components.models.ops.scaling import UNSCALED, Scaling
from components.models.tables.exchange import gather
from components.models.tables.placement import whole_shape

_dense: ContextVar[frozenset[Any]] = ContextVar("tables_with_dense_gradients", default=frozenset())


@contextmanager
def dense_gradients(variables: Iterable[tf.Variable]) -> Iterator[None]:
    """Look-ups traced within may return dense gradients, for optimizers that update every row."""
    token = _dense.set(frozenset(variable.ref() for variable in variables))
    try:
        yield
    finally:
        _dense.reset(token)


def may_be_dense(table: tf.Variable) -> bool:
    """Whether a look-up's gradient may be dense."""
    return table.ref() in _dense.get()


@operation(gpu="look_up")
def look_up(table: tf.Variable, rows: tf.Tensor, dtype: tf.DType = tf.float32, has_padding: bool = False) -> tf.Tensor:
    """Gathers rows; the gradient is sparse, or dense within ``dense_gradients``.

    Args:
        table: float32 ``[R, width]``, or this rank's part of it.
        rows: integers ``[..., F]``.
        has_padding: positions with a first row of 0 are padding, whose gradient is 0.

    Returns:
        ``[..., F * width]``: the F rows concatenated.
    """
    width = rows.shape[-1] * whole_shape(table)[-1]
    (embedded,) = gather([table], [rows])
    return tf.cast(tf.reshape(embedded, tf.concat([tf.shape(rows)[:-1], [width]], 0)), dtype)


@operation()
def sum_by_row(gradient: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor]:
    """Sums the slices of equal rows.

    Returns:
        The distinct rows ``[R]`` and their gradients ``[R, ...]``.
    """
    rows, positions = tf.unique(gradient.indices)
    return rows, tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(rows))


def rows_of(
    ids: Sequence[tf.Tensor],
    cardinalities: Sequence[int],
    offsets: Sequence[int],
    begin: int | tf.Tensor | None = None,
    end: int | tf.Tensor | None = None,
    time_first: bool = False,
) -> tf.Tensor:
    """Row indices in a joint table for the ids of adjacent features.

    Args:
        ids: of F features, int32 or int64 ``[B]`` or ``[B, length]``; ids outside 0..cardinality become padding.
        cardinalities: largest id of each feature.
        offsets: the row of each feature's id 0, the padding.
        begin, end: range of history positions to read.
        time_first: whether the result is time-major.

    Returns:
        ``[B, F]``, or ``[B, L, F]`` or ``[L, B, F]`` for L positions, in the dtype of the ids.
    """
    if len(ids[0].shape) == 2:
        ids = [tf.transpose(values[:, begin:end]) if time_first else values[:, begin:end] for values in ids]
    rows = []
    for values, cardinality, offset in zip(ids, cardinalities, offsets, strict=True):
        known = (values >= 0) & (values <= tf.constant(cardinality, values.dtype))
        # Before features are interleaved, the offset is a scalar.
        rows.append(tf.where(known, values, tf.zeros_like(values)) + tf.constant(offset, values.dtype))
    return tf.stack(rows, -1)


class AdamStep(NamedTuple):
    """The factors of a step of Adam.

    Attributes:
        keep_weights: 1 - weight decay.
        beta_1, beta_2: decay rates of the moments.
        epsilon: added to the root of the second moment.
        powers: ``beta_1 ** t`` and ``beta_2 ** t``.
        scaling: of the gradients; a skipped step changes nothing.
    """

    keep_weights: float | tf.Tensor
    beta_1: float | tf.Tensor
    beta_2: float | tf.Tensor
    epsilon: float
    rate: float | tf.Tensor
    powers: tuple[tf.Tensor, tf.Tensor]
    scaling: Scaling = UNSCALED

    @property
    def decays(self) -> bool:
        """Whether the weights decay; a tensor follows a schedule."""
        return tf.is_tensor(self.keep_weights) or self.keep_weights != 1.0

    def if_allowed(self) -> AdamStep:
        """The same step, with identity factors if it is skipped."""
        kept = self.scaling.kept
        return self._replace(
            keep_weights=kept(self.keep_weights) if self.decays else 1.0,
            beta_1=kept(self.beta_1),
            beta_2=kept(self.beta_2),
            rate=self.scaling.taken(self.rate),
        )


Update = tuple[Any, tf.Variable, tf.Variable, tf.Variable]
"""A gradient, its variable and the two moments."""


@operation()
def adam_all(updates: Sequence[Update], by: AdamStep) -> None:
    """Updates variables and their moments by ``adam``."""
    for gradient, variable, first, second in updates:
        adam(variable, first, second, gradient, by)


def adam(
    variable: tf.Variable, first: tf.Variable, second: tf.Variable, gradient: tf.Tensor | tf.IndexedSlices, by: AdamStep
) -> None:
    """Updates a variable and its moments; rows missing from a sparse gradient have gradient 0.

    Args:
        first, second: their moments.
        gradient: of the weights; slices may repeat a row.
    """
    by = by.if_allowed()
    if by.decays:
        variable.assign(variable * by.keep_weights)
    # ResourceApplyAdam reads and writes each row once; converting the gradient to dense is cheaper than sparse passes
    # over the moments.
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=first.handle,
        v=second.handle,
        beta1_power=by.powers[0],
        beta2_power=by.powers[1],
        lr=by.rate,
        beta1=by.beta_1,
        beta2=by.beta_2,
        epsilon=by.epsilon,
        grad=by.scaling.true(tf.convert_to_tensor(gradient)),
    )
