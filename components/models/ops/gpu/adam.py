"""Adam on a GPU: the many small variables of a model are updated together."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from components.models.ops.choice import fused
from components.models.ops.rows import AdamStep, Update, adam

_SMALL = 1 << 18  # largest variable, in values, whose copies take less time than a separate kernel launch


def adam_all(updates: Sequence[Update], by: AdamStep) -> None:
    """See :func:`components.models.ops.rows.adam_all`.

    Gradients, values and moments of small variables are concatenated into four vectors, updated, and split again; the
    assignments take over buffers without a launch. Under a loss scale a large variable is also updated by one kernel,
    because ResourceApplyAdam would need the unscaled gradient in memory.
    """
    small = [update for update in updates if _is_small(update)]
    for gradient, variable, first, second in updates:
        if any(variable is other for _, other, _, _ in small):
            continue
        if by.scaling.inverse is None:
            adam(variable, first, second, gradient, by)
        else:
            _move(variable, first, second, tf.convert_to_tensor(gradient), by)
    if not small:
        return
    g, w, m, v = (tf.concat([tf.reshape(part, [-1]) for part in parts], 0) for parts in zip(*small, strict=True))
    w, m, v = _moved(g, w, m, v, by)
    sizes = [variable.shape.num_elements() for _, variable, _, _ in small]
    for joined, position in ((w, 1), (m, 2), (v, 3)):
        for update, values in zip(small, tf.split(joined, sizes), strict=True):
            update[position].assign(tf.reshape(values, update[position].shape))


@fused
def _move(variable: tf.Variable, first: tf.Variable, second: tf.Variable, gradient: tf.Tensor, by: AdamStep) -> None:
    # Assigned within, so that XLA updates in place.
    weights, m, v = _moved(gradient, tf.identity(variable), tf.identity(first), tf.identity(second), by)
    variable.assign(weights)
    first.assign(m)
    second.assign(v)


@fused
def _moved(
    g: tf.Tensor, w: tf.Tensor, m: tf.Tensor, v: tf.Tensor, by: AdamStep
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    by = by.if_allowed()
    g = by.scaling.true(g)
    m += (g - m) * (1.0 - by.beta_1)
    v += (tf.square(g) - v) * (1.0 - by.beta_2)
    corrected = by.rate * tf.sqrt(1.0 - by.powers[1]) / (1.0 - by.powers[0])
    return w * by.keep_weights - corrected * m / (tf.sqrt(v) + by.epsilon), m, v


def _is_small(update: Update) -> bool:
    gradient, variable, _, _ = update
    return not isinstance(gradient, tf.IndexedSlices) and variable.shape.num_elements() <= _SMALL
