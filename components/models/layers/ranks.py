"""Likelihood and rank of targets among all items."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from components.contract import LONGEST_LIST

# Items whose scores are in memory at a time.
_BLOCK = 8192
# Less than any score.
_LEAST = -1e9
# Of a target that is no item: the logarithm of the smallest float32.
_NEVER = -103.0


class RankedTargets(NamedTuple):
    """What is known of the targets of N samples.

    Attributes:
        log_likelihood: float32 ``[N]``, the logarithm of the softmax over all items; that of about 0 for a target that
            is no item.
        rank: float32 ``[N]``, from 1; among equal scores the mean of their ranks. That of a target that is no item, or
            is left out, is above the number of items and above LONGEST_LIST.
    """

    log_likelihood: tf.Tensor
    rank: tf.Tensor


def rank_targets(
    state: tf.Tensor, items: tf.Tensor | tf.Variable, first: int, target: tf.Tensor, left_out: tf.Tensor | None
) -> RankedTargets:
    """Compares targets with all items.

    Args:
        state: float32 ``[N, width]``.
        items: float32 ``[rows, width]``.
        first: the first row of an item; those before it are none.
        target: ids, ``[N]``.
        left_out: ids ``[N, L]`` that are in no list of the sample; 0 is padding. None leaves none out.
    """
    own = tf.reduce_sum(state * tf.gather(items, target), -1)
    rows = items.shape[0]

    def block(
        begin: tf.Tensor, largest: tf.Tensor, exponentials: tf.Tensor, ahead: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        end = tf.minimum(begin + _BLOCK, rows)
        scores = tf.matmul(state, items[begin:end], transpose_b=True)
        higher = tf.maximum(largest, tf.reduce_max(scores, -1))
        exponentials = exponentials * tf.exp(largest - higher) + tf.reduce_sum(
            tf.exp(scores - higher[:, tf.newaxis]), -1
        )
        # The target is left out by its id: its score may differ in the last bit here.
        competes = tf.cast(tf.range(begin, end), target.dtype) != target[:, tf.newaxis]
        return end, higher, exponentials, ahead + _ahead(scores, own, competes)

    start = (
        tf.constant(first),
        tf.fill([tf.shape(state)[0]], _LEAST),
        tf.zeros([tf.shape(state)[0]]),
        tf.zeros_like(own),
    )
    _, largest, exponentials, ahead = tf.while_loop(lambda begin, *_: begin < rows, block, start)
    log_likelihood = own - largest - tf.math.log(exponentials)
    if left_out is not None:
        ahead -= _left_out_ahead(tf.einsum("nd,nld->nl", state, tf.gather(items, left_out)), own, first, left_out)
    return RankedTargets(
        tf.where(target >= first, log_likelihood, _NEVER),
        _rank(ahead, rows - first, _is_listed(first, target, left_out)),
    )


def rank_scores(scores: tf.Tensor, first: int, target: tf.Tensor, left_out: tf.Tensor | None) -> tf.Tensor:
    """The rank of targets by the scores of all items; see ``RankedTargets``.

    Args:
        scores: float32 ``[N, rows]``.
        first: the first row of an item; those before it are none.
        target: ids, ``[N]``.
        left_out: ids ``[N, L]``, as for ``rank_targets``.
    """
    rows = scores.shape[1]
    own = tf.gather(scores, target, batch_dims=1)
    ids = tf.range(rows, dtype=target.dtype)
    ahead = _ahead(scores, own, (ids >= first) & (ids != target[:, tf.newaxis]))
    if left_out is not None:
        ahead -= _left_out_ahead(tf.gather(scores, left_out, batch_dims=1), own, first, left_out)
    return _rank(ahead, rows - first, _is_listed(first, target, left_out))


def _rank(ahead: tf.Tensor, items: int, is_listed: tf.Tensor) -> tf.Tensor:
    """The rank behind so many competitors, float32 ``[N]``."""
    return tf.where(is_listed, tf.clip_by_value(1 + ahead, 1, float(items)), max(float(items), LONGEST_LIST) + 1)


def _is_listed(first: int, target: tf.Tensor, left_out: tf.Tensor | None) -> tf.Tensor:
    known = target >= first
    return known if left_out is None else known & tf.reduce_all(left_out != target[:, tf.newaxis], -1)


def _left_out_ahead(scores: tf.Tensor, own: tf.Tensor, first: int, left_out: tf.Tensor) -> tf.Tensor:
    """``_ahead`` of the items that are left out."""
    return _ahead(scores, own, _first_of_each(left_out) & (left_out >= first))


def _ahead(scores: tf.Tensor, own: tf.Tensor, competes: tf.Tensor) -> tf.Tensor:
    """Competitors above each target, and half of those level with it; float32 ``[N]``."""
    above = tf.cast(scores > own[:, tf.newaxis], tf.float32) + 0.5 * tf.cast(scores == own[:, tf.newaxis], tf.float32)
    return tf.reduce_sum(tf.where(competes, above, 0.0), -1)


def _first_of_each(ids: tf.Tensor) -> tf.Tensor:
    """Whether each id is the first of its value in its row, bool ``[N, L]``."""
    earlier = tf.linalg.band_part(ids[:, :, tf.newaxis] == ids[:, tf.newaxis, :], -1, 0)
    return tf.reduce_sum(tf.cast(earlier, tf.int32), -1) == 1
