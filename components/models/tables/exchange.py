"""Looks up rows of replicated and sharded tables.

A sharded table is looked up by all-to-all:

    request:    each rank sends every rank the distinct row indices that it needs of that rank's shards
    response:   each rank gathers these rows and sends them back
    backward:   each rank sums the gradients of its distinct rows and sends the sums to the rows' owners

A row is sent once in each direction, however often a rank's samples use it, and gradients arrive where rows and
optimizer state are: nothing is all-reduced or gathered whole. Shards of equal width share a message. The ranks may
request different numbers of rows, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate
from typing import Any

import tensorflow as tf

from components.models.tables.placement import Peers, Sharding, sharding_of

_recorded: ContextVar[dict[Any, list[tf.Tensor]] | None] = ContextVar("recorded_rows", default=None)


@contextmanager
def recorded_rows() -> Iterator[dict[Any, list[tf.Tensor]]]:
    """Records the rows that ``gather`` looks up within, by table reference, int64 ``[ids]`` each."""
    recorded: dict[Any, list[tf.Tensor]] = {}
    token = _recorded.set(recorded)
    try:
        yield recorded
    finally:
        _recorded.reset(token)


def gather(tables: Sequence[tf.Variable], ids: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Looks up rows; the gradients are sparse.

    Args:
        tables: float32 ``[R, width]`` each, or this rank's shard.
        ids: for each table, integers in ``[0, R)`` of any shape. Sharded look-ups are collective operations.

    Returns:
        ``[..., width]`` for each table, in order.
    """
    recorded = _recorded.get()
    if recorded is not None:
        for table, values in zip(tables, ids, strict=True):
            recorded.setdefault(table.ref(), []).append(tf.reshape(tf.cast(values, tf.int64), [-1]))
    gathered: list[tf.Tensor] = [None] * len(tables)
    exchanges: dict[int, list[int]] = {}
    for number, table in enumerate(tables):
        sharding = sharding_of(table)
        if sharding is None:
            gathered[number] = tf.gather(table, ids[number])
        else:
            exchanges.setdefault(sharding.mine.width, []).append(number)
    for numbers in exchanges.values():
        shardings = [sharding for number in numbers if (sharding := sharding_of(tables[number])) is not None]
        rows = _exchanged([tables[number] for number in numbers], shardings, [ids[number] for number in numbers])
        for number, values in zip(numbers, rows, strict=True):
            gathered[number] = values
    return gathered


def _exchanged(
    tables: Sequence[tf.Variable], shardings: Sequence[Sharding], ids: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """See ``gather``, for sharded tables with shards of equal width.

    An address is a row index into the concatenation of a rank's shards.
    """
    peers = shardings[0].peers
    starts = [list(accumulate((s.parts[rank].rows for s in shardings), initial=0)) for rank in range(peers.size)]
    kind = ids[0].dtype if max(ends[-1] for ends in starts) <= ids[0].dtype.max else tf.int64
    owners, addresses, restores = [], [], []
    asked = tf.zeros([], tf.int32)
    for number, (sharding, values) in enumerate(zip(shardings, ids, strict=True)):
        distinct, positions = tf.unique(tf.reshape(tf.cast(values, kind), [-1]))
        first = [ends[number] for ends in starts]
        owner, address = _located(sharding, distinct, first)
        owners.append(tf.reshape(owner, [-1]))
        addresses.append(tf.reshape(address, [-1]))
        # Positions of each id's pieces among this rank's requests: [ids, pieces].
        offsets = tf.range(address.shape[0], dtype=tf.int32) * tf.size(distinct)
        restores.append(asked + tf.expand_dims(positions, -1) + offsets)
        asked += tf.size(address)
    replies, order = _answered(peers, tables, starts, tf.concat(owners, 0), tf.concat(addresses, 0))
    received = []
    for sharding, values, position in zip(shardings, ids, restores, strict=True):
        rows = tf.gather(replies, tf.gather(order, position))
        received.append(tf.reshape(rows, tf.concat([tf.shape(values), [sharding.shape[1]]], 0)))
    return received


def _located(sharding: Sharding, rows: tf.Tensor, first: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Owner ranks, int32, and addresses of the pieces of rows ``[U]``, both ``[pieces, U]``."""
    parts = sharding.parts
    starts = tf.constant(first, rows.dtype)
    if parts[0].step > 1:
        step = tf.constant(parts[0].step, rows.dtype)
        owner = tf.cast(rows % step, tf.int32)
        return owner[tf.newaxis], (tf.gather(starts, owner) + rows // step)[tf.newaxis]
    holders = [rank for rank, part in enumerate(parts) if part.rows]
    owner = tf.repeat(tf.constant(holders, tf.int32)[:, tf.newaxis], tf.size(rows), 1)
    return owner, tf.gather(starts, holders)[:, tf.newaxis] + rows


def _answered(
    peers: Peers,
    tables: Sequence[tf.Variable],
    starts: Sequence[Sequence[int]],
    owners: tf.Tensor,
    addresses: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Requests the rows at the addresses from their owners, and answers the other ranks' requests.

    Returns:
        The rows, ``[N, width]``, ordered by owner, and the index of each address in them, int32 ``[N]``.
    """
    asked = tf.dynamic_partition(tf.range(tf.size(owners)), owners, peers.size)
    order = tf.concat(asked, 0)
    wanted, counts = peers.all_to_all(
        tf.gather(addresses, order), tf.stack([tf.size(rows) for rows in asked]), "rows_asked_for"
    )
    rows = _held(tables, starts[peers.rank], wanted)

    @tf.custom_gradient
    def sent_back(rows: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        replies, kept = peers.all_to_all(rows, counts, "rows")

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            # A dense gradient has each distinct row once.
            return peers.all_to_all(tf.convert_to_tensor(upstream), kept, "gradients_of_rows")[0]

        return replies, gradient

    return sent_back(rows), tf.math.invert_permutation(order)


def _held(tables: Sequence[tf.Variable], starts: Sequence[int], addresses: tf.Tensor) -> tf.Tensor:
    """The rows of this rank's shards at addresses ``[N]``, ``[N, width]``."""
    if len(tables) == 1:
        return tf.gather(tables[0], addresses)
    bounds = tf.constant(starts, addresses.dtype)
    table = tf.searchsorted(bounds, addresses, side="right") - 1
    positions = tf.dynamic_partition(tf.range(tf.size(addresses)), table, len(tables))
    rows = [
        tf.gather(variable, tf.gather(addresses, position) - bounds[number])
        for number, (variable, position) in enumerate(zip(tables, positions, strict=True))
    ]
    return tf.dynamic_stitch(positions, rows)
