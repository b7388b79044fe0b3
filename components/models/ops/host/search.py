"""The general search over a long history, directly on the rows of a table.

The history, by far the largest tensor of a batch, is never in memory: a kernel reads a sample's rows from the table and
scatter-adds their gradients to the table's gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from components.models.ops.attention import FURTHEST
from components.models.ops.host import host
from components.models.ops.host import rows as kernels
from components.models.ops.host.activations import exp
from components.models.ops.host.products import padded
from components.models.ops.host.rows import share_of
from components.models.ops.host.unique_rows import unique_rows
from components.models.ops.host.vectors import (
    LANES,
    count_at_least,
    everywhere,
    float_of,
    load,
    prefetch,
    store,
    total,
    where_at_least,
)
from components.models.tables.placement import sharding_of
from components.native.compiled import kernel

# Weightings of the history: attention over all items, attention over the found items, mean of the found items.
WEIGHTINGS = 3
_LEAST = np.float32(2.0**-126)  # the smallest normal float: attention is 0 or far above, see FURTHEST
_LOWEST, _ZERO, _ONE = np.float32(-3e38), np.float32(0), np.float32(1)


def search(
    table: tf.Variable, rows: tf.Tensor, mask: tf.Tensor, target: tf.Tensor, k: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """See ``components.models.ops.search.search``."""
    if sharding_of(table) is not None or not kernels.supports(table.shape[-1], target.dtype):
        return NotImplemented
    # Each distinct row is read from the table once, and its gradient is summed once.
    unique, (positions,) = unique_rows([rows], table.shape[0])
    held = kernels.look_up(kernels.whole(table), unique)
    attention, best, mean = tf.unstack(_weighted(held, positions, mask, target, k), axis=1)
    return attention, best, mean


def _weighted(table: tf.Tensor, positions: tf.Tensor, mask: tf.Tensor, target: tf.Tensor, k: int) -> tf.Tensor:
    """The three weighted sums, float32 ``[B, 3, F * width]``, over the rows ``positions`` ``[B, L, F]`` of a table."""
    length, features = positions.shape[1:]
    sums_shape = tf.TensorShape([target.shape[0], WEIGHTINGS, target.shape[1]])
    kept_shape = tf.TensorShape([target.shape[0], WEIGHTINGS, padded(length)])
    sizes = length, features
    furthest = np.float32(FURTHEST)  # an argument: kernels' caches do not track this constant's module

    def forward(table: np.ndarray, positions: np.ndarray, mask: np.ndarray, target: np.ndarray) -> list[np.ndarray]:
        samples = len(target)
        sums = host.floats(samples, WEIGHTINGS, target.shape[1])
        weights = host.floats(samples, WEIGHTINGS, padded(length))
        flat = table.reshape(-1), table.shape[1], positions.reshape(-1), mask.reshape(-1), target.reshape(-1), sizes

        def work(part: int, first: int, last: int, room: np.ndarray) -> None:
            _forward(*flat, k, furthest, first, last, room, weights.reshape(-1), sums.reshape(-1))

        host.in_parts(work, samples, padded(length))
        return [sums, weights]

    def backward(
        table: np.ndarray,
        positions: np.ndarray,
        mask: np.ndarray,
        target: np.ndarray,
        weights: np.ndarray,
        upstream: np.ndarray,
    ) -> list[np.ndarray]:
        samples, width = len(target), table.shape[1]
        of_target = host.floats(*target.shape)
        of_scores = host.floats(samples, padded(length))
        sample = mask.reshape(-1), target.reshape(-1), weights.reshape(-1), upstream.reshape(-1)

        def differentiate(part: int, first: int, last: int, room: np.ndarray) -> None:
            _backward(
                table.reshape(-1), width, positions.reshape(-1), *sample, sizes, first, last, room,
                of_scores.reshape(-1), of_target.reshape(-1),
            )  # fmt: skip

        def add(part: int, first: int, last: int) -> None:
            room = np.empty(2 * features * (length + 1), np.int32)
            for share in range(first, last):
                _add(
                    positions.reshape(-1), *sample, of_scores.reshape(-1), width, sizes, samples, share,
                    kernels.shares(), room, of_table.reshape(-1),
                )  # fmt: skip

        host.in_parts(differentiate, samples, 2 * padded(length))
        of_table = kernels.zeros(*table.shape)
        host.in_parts(add, kernels.shares())
        return [of_table, of_target]

    @tf.custom_gradient
    def compute(table: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
        args = [table, positions, mask, target]
        sums, weights = host.call(forward, args, [sums_shape, kept_shape])

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            return host.call(backward, [*args, weights, upstream], [table.shape, target.shape])

        return sums, gradient

    return compute(table, target)


@kernel
def _forward(table, width, positions, mask, target, sizes, k, furthest, first, last, scores, weights, sums):  # type: ignore[no-untyped-def]
    """Searches the histories of samples ``[first, last)``.

    Args:
        table, width, positions, mask, target: of ``_weighted``, flat.
        sizes: L, F.
        k: maximum number of found items.
        furthest: largest distance of a score from the best one.
        scores: scratch, [padded L].
        weights: output, the three weightings, [B, 3, padded L].
        sums: output, [B, 3, F * width].
    """
    length, features = sizes
    across, row = features * width, len(scores)
    for sample in range(first, last):
        items, own, to = sample * length, sample * across, sample * 3 * across
        best = _LOWEST
        scores[:] = _LOWEST
        oldest = first_item(mask, items, length)
        for t in range(length):
            ask(table, width, positions, mask, items + length + t, features)
            if mask[items + t]:
                scores[t] = dot(table, width, positions, (items + t) * features, features, target, own)
                best = max(best, scores[t])
        if oldest == length:
            weights[sample * 3 * row : (sample + 1) * 3 * row] = _ZERO
            sums[to : to + 3 * across] = _ZERO
            continue
        attention = sample * 3 * row
        weigh(scores, best, k, furthest, weights, attention)
        for feature in range(features):
            for j in range(0, width, LANES):
                a, b, c = everywhere(_ZERO), everywhere(_ZERO), everywhere(_ZERO)
                for t in range(oldest, length):  # weights of padding between items are 0
                    values = load(table, np.int64(positions[(items + t) * features + feature]) * width + j)
                    a = a + everywhere(weights[attention + t]) * values
                    b = b + everywhere(weights[attention + row + t]) * values
                    c = c + everywhere(weights[attention + 2 * row + t]) * values
                part = to + feature * width + j
                store(sums, part, a)
                store(sums, part + across, b)
                store(sums, part + 2 * across, c)


@kernel
def weigh(scores, best, k, furthest, weights, at):  # type: ignore[no-untyped-def]
    """Computes the weightings of one sample from its scores: three rows of ``weights`` from offset ``at``."""
    row = len(scores)
    second, mean = at + row, at + 2 * row
    sums = everywhere(_ZERO)
    for t in range(0, row, LANES):
        score = load(scores, t)
        # Scores too far below the best, such as padding's, get attention 0.
        power = where_at_least(exp(score - everywhere(best)), score, best - furthest)
        sums = sums + power
        store(weights, at + t, power)
    scale = everywhere(_ONE / total(sums))
    count = 0
    for t in range(0, row, LANES):
        attention = load(weights, at + t) * scale
        count += count_at_least(attention, _LEAST)
        store(weights, at + t, attention)
    # Positive floats sort like their bit patterns: a binary search over the bits finds the k-th.
    threshold = _LEAST
    if count > k:
        low = np.int32(0)
        for bit in range(29, -1, -1):
            higher = low | np.int32(1 << bit)
            count = 0
            for t in range(0, row, LANES):
                count += count_at_least(load(weights, at + t), float_of(higher))
            if count >= k:
                low = higher
        threshold, count = float_of(low), 0
        for t in range(0, row, LANES):
            count += count_at_least(load(weights, at + t), float_of(low))
    part = everywhere(_ZERO)
    for t in range(0, row, LANES):
        attention = load(weights, at + t)
        attention = where_at_least(attention, attention, threshold)
        part = part + attention
        store(weights, second + t, attention)
    # Ties with the k-th item go to the earlier positions.
    surplus = everywhere(_ZERO)
    t = row
    while count > k:
        t -= 1
        if weights[second + t] == threshold:
            weights[second + t] = _ZERO
            surplus = surplus + everywhere(threshold)
            count -= 1
    scale = everywhere(_ONE / (total(part) - total(surplus) / np.float32(LANES)))
    share = everywhere(_ONE / np.float32(count + 1))
    for t in range(0, row, LANES):
        attention = load(weights, second + t)
        store(weights, second + t, attention * scale)
        store(weights, mean + t, where_at_least(share, attention, _LEAST))


@kernel
def first_item(mask, at, length):  # type: ignore[no-untyped-def]
    """The first position of a history that is not padding, or its length."""
    t = 0
    while t < length and not mask[at + t]:
        t += 1
    return t


@kernel
def ask(table, width, positions, mask, item, features):  # type: ignore[no-untyped-def]
    """Prefetches the rows of an item, which are at random addresses."""
    if item < len(mask) and mask[item]:
        for feature in range(features):
            prefetch(table, np.int64(positions[item * features + feature]) * width)


@kernel
def dot(table, width, positions, item, features, other, at):  # type: ignore[no-untyped-def]
    """Dot product of the item with rows ``places[item:item + features]`` and ``other`` from offset ``at``."""
    products = everywhere(_ZERO)
    for feature in range(features):
        begin = np.int64(positions[item + feature]) * width
        for j in range(0, width, LANES):
            products = products + load(table, begin + j) * load(other, at + feature * width + j)
    return total(products)


@kernel
def _backward(  # type: ignore[no-untyped-def]
    table, width, positions, mask, target, weights, upstream, sizes, first, last, room, of_scores, of_target
):  # fmt: skip
    """The gradients of scores and target.

    Args:
        table, width, positions, mask, target, sizes, weights: of ``_forward``.
        upstream: the gradients of the sums, [B, 3, F * width].
        room: scratch, [2, padded L].
        of_scores: output, [B, padded L].
        of_target: output, [B, F * width].
    """
    length, features = sizes
    across, row = features * width, len(room) // 2
    for sample in range(first, last):
        items, scores = sample * length, sample * row
        attention, second, up = sample * 3 * row, (sample * 3 + 1) * row, sample * 3 * across
        room[:] = _ZERO
        oldest = first_item(mask, items, length)
        for t in range(length):
            ask(table, width, positions, mask, items + length + t, features)
            if mask[items + t]:
                at = (items + t) * features
                room[t] = dot(table, width, positions, at, features, upstream, up)
                room[row + t] = dot(table, width, positions, at, features, upstream, up + across)
        first_sum, second_sum = everywhere(_ZERO), everywhere(_ZERO)
        for t in range(0, row, LANES):
            first_sum = first_sum + load(weights, attention + t) * load(room, t)
            second_sum = second_sum + load(weights, second + t) * load(room, row + t)
        of_attention, of_second = everywhere(total(first_sum)), everywhere(total(second_sum))
        for t in range(0, row, LANES):
            value = load(weights, attention + t) * (load(room, t) - of_attention)
            value = value + load(weights, second + t) * (load(room, row + t) - of_second)
            store(of_scores, scores + t, value)
        for feature in range(features):
            for j in range(0, width, LANES):
                sums = everywhere(_ZERO)
                for t in range(oldest, length):
                    at = np.int64(positions[(items + t) * features + feature]) * width + j
                    sums = sums + everywhere(of_scores[scores + t]) * load(table, at)
                store(of_target, sample * across + feature * width + j, sums)


@kernel
def _add(  # type: ignore[no-untyped-def]
    positions, mask, target, weights, upstream, of_scores, width, sizes, samples, share, shares, room, of_table
):  # fmt: skip
    """Scatter-adds the items' gradients to the rows of a share.

    An item's gradient is a sum of four vectors, from its three weightings and its score.

    Args:
        positions, mask, target, weights, upstream, width, sizes: of ``_backward``.
        of_scores: output of ``_backward``.
        samples: B.
        share, shares: index and number of shares, ``rows.share_of``.
        room: int32 scratch, [2, F * (L + 1)].
        of_table: accumulated, [R, width].
    """
    length, features = sizes
    across, row = features * width, len(of_scores) // max(samples, 1)
    now, later = 0, len(room) // 2
    _list_share(positions, mask, 0, samples, width, sizes, share, shares, of_table, room, now)
    for sample in range(samples):
        _list_share(positions, mask, sample + 1, samples, width, sizes, share, shares, of_table, room, later)
        for feature in range(features):
            listed = now + feature * (length + 1)
            for j in range(0, width, LANES):
                part = feature * width + j
                up = sample * 3 * across + part
                a, b, c = load(upstream, up), load(upstream, up + across), load(upstream, up + 2 * across)
                d = load(target, sample * across + part)
                for i in range(listed + 1, listed + 1 + room[listed]):
                    t = np.int64(room[i])
                    at = sample * 3 * row + t
                    to = np.int64(positions[(sample * length + t) * features + feature]) * width + j
                    value = load(of_table, to) + everywhere(weights[at]) * a
                    value = value + everywhere(weights[at + row]) * b
                    value = value + everywhere(weights[at + 2 * row]) * c
                    value = value + everywhere(of_scores[sample * row + t]) * d
                    store(of_table, to, value)
        now, later = later, now


@kernel
def _list_share(positions, mask, sample, samples, width, sizes, share, shares, of_table, out, to):  # type: ignore[no-untyped-def]
    """Lists the positions of a sample's items in a share, and prefetches their rows.

    Args:
        sample: its index; B writes nothing.
        out, to: output array and offset; for each feature the number of positions, and the positions, at most L.
    """
    length, features = sizes
    if sample == samples:
        return
    oldest = first_item(mask, sample * length, length)
    for feature in range(features):
        listed = to + feature * (length + 1)
        count = 0
        for t in range(oldest, length):
            item = sample * length + t
            # Branch-free: the share of a row is unpredictable.
            out[listed + 1 + count] = t
            count += np.int64(mask[item] & (share_of(positions[item * features + feature], shares) == share))
        out[listed] = count
        for i in range(listed + 1, listed + 1 + count):
            prefetch(of_table, np.int64(positions[(sample * length + out[i]) * features + feature]) * width)
