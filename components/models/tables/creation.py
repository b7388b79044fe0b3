"""Creates tables according to their placements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from components.models.tables.placement import REPLICATED, Peers, Placement, Requested, Sharding, divide, mark

# Maps (first, count) to the initial values of rows ``[first, first + count)``: float32 ``[count, width]``.
Draw = Callable[[int, int], tf.Tensor]
# Creates the variable of a table, or of this rank's shard, from its name, shape and initial values.
Maker = Callable[[str, tuple[int, int], Draw], tf.Variable]

# Initial values are drawn in blocks of 64 MiB, so that a rank needs memory only for its shard and a block.
_BLOCK_FLOATS = 1 << 24


def make_replicated(name: str, shape: tuple[int, int], draw: Draw) -> tf.Variable:
    """A whole table."""
    return tf.Variable(draw(0, shape[0]), name=name)


_maker: ContextVar[Maker] = ContextVar("table_maker", default=make_replicated)


@contextmanager
def tables_made_by(maker: Maker) -> Iterator[None]:
    """Models built within create their tables by ``maker``; by default tables are replicated."""
    token = _maker.set(maker)
    try:
        yield
    finally:
        _maker.reset(token)


def make_table(name: str, shape: tuple[int, int], draw: Draw) -> tf.Variable:
    """Creates the variable of a table, or of this rank's shard."""
    return _maker.get()(name, shape, draw)


class Survey:
    """Records the tables that a model requests, and creates them empty; the model cannot compute.

    Attributes:
        sizes: bytes of each table, by reference of its empty variable.
    """

    def __init__(self) -> None:
        self.requested: list[Requested] = []
        self.sizes: dict[Any, int] = {}

    @property
    def bytes(self) -> int:
        """Of all tables."""
        return sum(self.sizes.values())

    def __call__(self, name: str, shape: tuple[int, int], draw: Draw) -> tf.Variable:
        if any(table.name == name for table in self.requested):
            raise ValueError(f"two tables are called {name}; make them with weights of different scopes")
        self.requested.append(Requested(name, *shape))
        variable = tf.Variable(tf.zeros([0, shape[1]]), name=name)
        self.sizes[variable.ref()] = tf.float32.size * shape[0] * shape[1]
        return variable


class PlacedTables:
    """Creates this rank's table shards."""

    def __init__(self, placements: Mapping[str, Placement], peers: Peers) -> None:
        self._placements, self._peers = placements, peers

    def __call__(self, name: str, shape: tuple[int, int], draw: Draw) -> tf.Variable:
        placement = self._placements[name]
        # None leaves the device to TensorFlow: the GPU, if there is one.
        with tf.device("CPU:0" if placement.on_host else None):
            if placement.kind == REPLICATED:
                return make_replicated(name, shape, draw)
            sharding = Sharding(name, shape, divide(placement, shape, self._peers.size), self._peers)
            variable = _drawn_part(sharding, draw)
        mark(variable, sharding)
        return variable


def _drawn_part(sharding: Sharding, draw: Draw) -> tf.Variable:
    """This rank's shard, with the same initial values as in the whole table."""
    part, (rows, width) = sharding.mine, sharding.shape
    variable = tf.Variable(tf.zeros([part.rows, part.width]), name=sharding.name)
    # A multiple of the step, so that this rank's rows have the same offsets in every block.
    block = max(_BLOCK_FLOATS // (width * part.step), 1) * part.step
    for first in range(0, rows if part.rows else 0, block):
        drawn = draw(first, min(block, rows - first))[part.first :: part.step, part.begin : part.end]
        begin = first // part.step
        variable[begin : begin + drawn.shape[0]].assign(drawn)
    return variable
