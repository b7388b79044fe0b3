"""LAMB: Adam's direction with the length of the weights, for large batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from components.models.ops.choice import fused
from components.models.ops.rows import AdamStep, Update
from components.models.optimizers.adam import Adam
from components.models.optimizers.adamw import UNDECAYED, Factor, is_named
from components.models.optimizers.schedules import Rate
from components.models.tables.placement import sharding_of


class _Kind(NamedTuple):
    """How a variable is updated: its decay, its share of the learning rate, and whether its length counts."""

    decay: float
    factor: float
    is_scaled: bool


class Lamb(Adam):
    """Layer-wise adaptive moments.

        m = b1 m + (1 - b1) g
        v = b2 v + (1 - b2) g²
        r = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon) + decay * w
        w = w - factor * lr * ratio * r

    The trust ratio is ||w|| / ||r|| of the whole variable, and 1 if one of the norms is 0. Excluded variables have
    no decay and the ratio 1. Rows missing from a sparse gradient have gradient 0, so every step updates every row. The
    norms of a sharded table are those of the whole table: its ranks exchange their sums of squares, a collective
    operation.

    Args:
        learning_rate: lr, a number or a schedule.
        beta_1, beta_2: b1 and b2, decay rates of the moments.
        epsilon: added to the root of the corrected second moment.
        excluded: parts of names; variables with one of them in their names are excluded.
        factor: each variable's share of the learning rate; None is 1.

    Examples:
        >>> kernel = tf.Variable([3.0, 4.0], name="kernel")
        >>> Lamb(learning_rate=0.1, weight_decay=0.0, epsilon=0.0).apply([(tf.constant([2.0, 2.0]), kernel)])
        >>> kernel.numpy().round(4)  # ratio 5 / sqrt(2), r = [1, 1]
        array([2.6464, 3.6464], dtype=float32)

    References:
        You et al., Large Batch Optimization for Deep Learning, https://arxiv.org/abs/1904.00962, algorithm 2
    """

    def __init__(
        self,
        learning_rate: Rate,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        excluded: Sequence[str] = UNDECAYED,
        factor: Factor | None = None,
    ) -> None:
        super().__init__(learning_rate, 0.0, "lamb", beta_1, beta_2, epsilon)
        self._decay, self._excluded, self._factor = weight_decay, tuple(excluded), factor

    def _update_all(self, updates: Sequence[Update], by: AdamStep) -> None:
        with tf.name_scope("lamb"):
            self._step(updates, by)

    def _step(self, updates: Sequence[Update], by: AdamStep) -> None:
        variables = [variable for _, variable, _, _ in updates]
        kinds, rate = [self._kind(variable) for variable in variables], by.scaling.taken(by.rate)
        steps = [
            _direction(tf.convert_to_tensor(gradient), variable, first, second, kind.decay, by)
            for (gradient, variable, first, second), kind in zip(updates, kinds, strict=True)
        ]
        squares = _of_whole_tables(variables, [each for _, each in steps])
        for variable, kind, (direction, _), norms in zip(variables, kinds, steps, squares, strict=True):
            size = rate * kind.factor
            _move(variable, direction, size * _ratio(norms) if kind.is_scaled else size)

    def _kind(self, variable: tf.Variable) -> _Kind:
        is_scaled = not is_named(variable, self._excluded)
        return _Kind(self._decay if is_scaled else 0.0, self._factor(variable) if self._factor else 1.0, is_scaled)


@fused
def _direction(
    gradient: tf.Tensor, variable: tf.Variable, first: tf.Variable, second: tf.Variable, decay: float, by: AdamStep
) -> tuple[tf.Tensor, tf.Tensor]:
    """Updates the moments; returns r, and the sums of the squares of w and r, ``[2]``."""
    by, weights = by.if_allowed(), tf.identity(variable)
    gradient = by.scaling.true(gradient)
    # Assigned within, so that XLA updates in place.
    m = first.assign(by.beta_1 * first + (1.0 - by.beta_1) * gradient, read_value=True)
    v = second.assign(by.beta_2 * second + (1.0 - by.beta_2) * tf.square(gradient), read_value=True)
    corrected = tf.sqrt(v / (1.0 - by.powers[1])) + by.epsilon
    direction = m / (1.0 - by.powers[0]) / corrected + decay * weights
    return direction, tf.stack([tf.reduce_sum(tf.square(weights)), tf.reduce_sum(tf.square(direction))])


@fused
def _move(variable: tf.Variable, direction: tf.Tensor, size: float | tf.Tensor) -> None:
    variable.assign_sub(size * direction)


def _ratio(squares: tf.Tensor) -> tf.Tensor:
    """||w|| / ||r|| from their squares, and 1 if one of them is 0."""
    norms = tf.sqrt(squares)
    return tf.where(tf.reduce_all(norms > 0.0), tf.math.divide_no_nan(norms[0], norms[1]), 1.0)


def _of_whole_tables(variables: Sequence[tf.Variable], squares: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The sums of squares, over all ranks for sharded tables; every rank adds up in the same order."""
    summed, shardings = list(squares), [sharding_of(variable) for variable in variables]
    numbers = [number for number, sharding in enumerate(shardings) if sharding is not None]
    if not numbers:
        return summed
    peers = next(sharding.peers for sharding in shardings if sharding is not None)
    mine = tf.stack([squares[number] for number in numbers])
    counts = tf.fill([peers.size], len(numbers))
    received, _ = peers.all_to_all(tf.tile(mine, [peers.size, 1]), counts, "squares_of_tables")
    total = tf.reduce_sum(tf.reshape(received, [peers.size, len(numbers), 2]), 0)
    for index, number in enumerate(numbers):
        summed[number] = total[index]
    return summed
