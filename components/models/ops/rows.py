"""Rows of an embedding table: gathered, and their gradients."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from components.models.ops.choice import operation
from components.models.tables.exchange import gather
from components.models.tables.placement import whole_shape


@operation()
def look_up(table: tf.Variable, rows: tf.Tensor) -> tf.Tensor:
    """Gathers rows; the gradient is sparse.

    Args:
        table: ``[R, width]``, or this rank's part of it.
        rows: integers ``[..., F]``.

    Returns:
        ``[..., F * width]``: the F rows side by side.
    """
    width = rows.shape[-1] * whole_shape(table)[-1]
    (found,) = gather([table], [rows])
    return tf.reshape(found, tf.concat([tf.shape(rows)[:-1], [width]], 0))


@operation("rows.sum_by_row")
def sum_by_row(gradient: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor]:
    """Sums the slices of equal rows.

    Returns:
        The distinct rows ``[R]`` and their gradients ``[R, ...]``.
    """
    rows, positions = tf.unique(gradient.indices)
    return rows, tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(rows))


class AdamStep(NamedTuple):
    """The factors of a step of Adam.

    Attributes:
        keep_weights: share of the weights that decay leaves.
        beta_1, beta_2: shares of the moments that are kept.
        epsilon: added to the root of the second moment.
        rate: the learning rate.
        powers: ``beta_1 ** t`` and ``beta_2 ** t``.
    """

    keep_weights: float
    beta_1: float
    beta_2: float
    epsilon: float
    rate: float | tf.Tensor
    powers: tuple[tf.Tensor, tf.Tensor]


@operation("adam.adam")
def adam(
    variable: tf.Variable, first: tf.Variable, second: tf.Variable, gradient: tf.Tensor | tf.IndexedSlices, by: AdamStep
) -> None:
    """Moves a variable and its moments; a sparse gradient counts as 0 in the rows it does not name.

    Args:
        variable: the weights.
        first, second: their moments.
        gradient: of the weights; a row may be named more than once.
        by: the step.
    """
    if by.keep_weights != 1.0:
        variable.assign(variable * by.keep_weights)
    # TensorFlow's operation reads and writes each row once; a dense gradient for it is cheaper than sparse passes over
    # the moments.
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
        grad=tf.convert_to_tensor(gradient),
    )
