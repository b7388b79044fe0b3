"""Looking up rows of tables, wherever they are.

A table that is divided among ranks is looked up by all-to-all:

    asked for:  each rank sends every rank the distinct rows that it wants of that rank's parts
    answered:   each rank gathers these rows and sends them back
    backward:   each rank sums the gradients of its distinct rows and sends the sums to where the rows are

so that a row travels once in each direction, however often a rank's samples name it, and the gradients arrive where
the rows and their optimizer's state are: nothing is reduced, and nothing is gathered whole. Parts of equal width share
a message. The ranks may ask for different numbers of rows, or none.
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
    """Gives, by the reference of a table, the rows that :func:`gather` looks up within, int64 ``[ids]`` each."""
    recorded: dict[Any, list[tf.Tensor]] = {}
    token = _recorded.set(recorded)
    try:
        yield recorded
    finally:
        _recorded.reset(token)


def gather(tables: Sequence[tf.Variable], ids: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Looks up rows; the gradients are sparse.

    Args:
        tables: float32 ``[R, width]`` each, or this rank's part of it.
        ids: of each table integers of any shape, from 0 to before R. Every rank that holds a part must take part.

    Returns:
        ``[..., width]`` of each table, in order.
    """
    recorded = _recorded.get()
    if recorded is not None:
        for table, values in zip(tables, ids, strict=True):
            recorded.setdefault(table.ref(), []).append(tf.reshape(tf.cast(values, tf.int64), [-1]))
    found: list[tf.Tensor] = [None] * len(tables)
    exchanges: dict[int, list[int]] = {}
    for number, table in enumerate(tables):
        sharding = sharding_of(table)
        if sharding is None:
            found[number] = tf.gather(table, ids[number])
        else:
            exchanges.setdefault(sharding.mine.width, []).append(number)
    for numbers in exchanges.values():
        shardings = [sharding for number in numbers if (sharding := sharding_of(tables[number])) is not None]
        rows = _exchanged([tables[number] for number in numbers], shardings, [ids[number] for number in numbers])
        for number, values in zip(numbers, rows, strict=True):
            found[number] = values
    return found


def _exchanged(
    tables: Sequence[tf.Variable], shardings: Sequence[Sharding], ids: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """See :func:`gather`, for divided tables whose parts have the same width.

    Every rank's parts are numbered through, table by table: an address is a row of them.
    """
    peers = shardings[0].peers
    starts = [list(accumulate((s.parts[rank].rows for s in shardings), initial=0)) for rank in range(peers.size)]
    kind = ids[0].dtype if max(ends[-1] for ends in starts) <= ids[0].dtype.max else tf.int64
    owners, addresses, places = [], [], []
    asked = tf.zeros([], tf.int32)
    for number, (sharding, values) in enumerate(zip(shardings, ids, strict=True)):
        distinct, positions = tf.unique(tf.reshape(tf.cast(values, kind), [-1]))
        first = [ends[number] for ends in starts]
        owner, address = _located(sharding, distinct, first)
        owners.append(tf.reshape(owner, [-1]))
        addresses.append(tf.reshape(address, [-1]))
        # Of each id, where its pieces are among all that this rank asks for: [ids, pieces].
        offsets = tf.range(address.shape[0], dtype=tf.int32) * tf.size(distinct)
        places.append(asked + tf.expand_dims(positions, -1) + offsets)
        asked += tf.size(address)
    replies, order = _answered(peers, tables, starts, tf.concat(owners, 0), tf.concat(addresses, 0))
    found = []
    for sharding, values, place in zip(shardings, ids, places, strict=True):
        rows = tf.gather(replies, tf.gather(order, place))
        found.append(tf.reshape(rows, tf.concat([tf.shape(values), [sharding.shape[1]]], 0)))
    return found


def _located(sharding: Sharding, rows: tf.Tensor, first: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Where rows ``[U]`` of a table are: the ranks, int32, and addresses of their pieces, both ``[pieces, U]``."""
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
    """Asks the owners for what is at the addresses, and answers what the other ranks ask.

    Returns:
        The rows, ``[N, width]``, by owner, and which of them each address is, int32 ``[N]``.
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
            # As a dense tensor it has each distinct row once.
            return peers.all_to_all(tf.convert_to_tensor(upstream), kept, "gradients_of_rows")[0]

        return replies, gradient

    return sent_back(rows), tf.math.invert_permutation(order)


def _held(tables: Sequence[tf.Variable], starts: Sequence[int], addresses: tf.Tensor) -> tf.Tensor:
    """The rows of this rank's parts at addresses ``[N]``, ``[N, width]``."""
    if len(tables) == 1:
        return tf.gather(tables[0], addresses)
    bounds = tf.constant(starts, addresses.dtype)
    table = tf.searchsorted(bounds, addresses, side="right") - 1
    places = tf.dynamic_partition(tf.range(tf.size(addresses)), table, len(tables))
    rows = [
        tf.gather(variable, tf.gather(addresses, place) - bounds[number])
        for number, (variable, place) in enumerate(zip(tables, places, strict=True))
    ]
    return tf.dynamic_stitch(places, rows)
