"""Placements of tables, and the part of a table on each rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

REPLICATED, RANK, COLUMNS, ROWS = "replicated", "rank", "columns", "rows"
KINDS = (REPLICATED, RANK, COLUMNS, ROWS)

# An attribute of table shards and of their optimizer state.
_ATTRIBUTE = "_kfrec_sharding"


class Requested(NamedTuple):
    """A table that a model requests: its variable's name, rows, and floats per row."""

    name: str
    rows: int
    width: int


@dataclass(frozen=True)
class Placement:
    """The placement of a table.

    Attributes:
        kind: REPLICATED, every rank holds the table; RANK, one rank holds it; COLUMNS, each rank holds some columns of
            every row; ROWS, rank r of n holds the rows r, r + n, r + 2n, ... Frequent ids are often adjacent, so
            contiguous ranges of rows would load the ranks unevenly.
        rank: owner of the table, for RANK.
        on_host: whether the table is in host memory even if there is a GPU.
    """

    kind: str = REPLICATED
    rank: int = 0
    on_host: bool = False


@dataclass(frozen=True)
class Part:
    """Some rows and columns of a table.

    Attributes:
        first: the first row.
        rows: number of rows, possibly 0.
        begin, end: range of the columns.
    """

    first: int
    step: int
    rows: int
    begin: int
    end: int

    @property
    def width(self) -> int:
        return self.end - self.begin

    @property
    def size(self) -> int:
        """Number of floats."""
        return self.rows * self.width

    def find(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mask of the ids in this part, and the part's row of each of those."""
        held = (ids % self.step == self.first) & (ids // self.step < self.rows)
        return held, ids[held] // self.step

    def ids(self, begin: int, end: int) -> np.ndarray:
        """The table rows of this part's rows ``[begin, end)``."""
        import numpy as np  # this module is imported where no model is built

        return self.first + self.step * np.arange(begin, end, dtype=np.int64)


def divide(placement: Placement, shape: tuple[int, int], ranks: int) -> tuple[Part, ...]:
    """The part of each rank of a table ``[rows, width]``.

    Raises:
        ValueError: the columns cannot be divided evenly.
    """
    rows, width = shape
    if placement.kind == ROWS:
        return tuple(Part(rank, ranks, len(range(rank, rows, ranks)), 0, width) for rank in range(ranks))
    if placement.kind == COLUMNS:
        if width % ranks:
            raise ValueError(f"{width} columns cannot be divided evenly over {ranks} ranks")
        each = width // ranks
        return tuple(Part(0, 1, rows, rank * each, (rank + 1) * each) for rank in range(ranks))
    undivided = Part(0, 1, rows, 0, width)
    if placement.kind == RANK:
        return tuple(undivided if rank == placement.rank else Part(0, 1, 0, 0, width) for rank in range(ranks))
    return (undivided,) * ranks


class Peers(Protocol):
    """The processes that share tables, from the view of one of them.

    Attributes:
        rank: number of this process, from 0.
    """

    rank: int
    size: int

    def all_to_all(self, values: tf.Tensor, counts: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """All-to-all along the first axis.

        Args:
            values: ``[N, ...]``, to send, ordered by receiving rank.
            counts: int32 ``[size]``, number of values for each rank; the sum is N.

        Returns:
            The received values, ordered by sending rank, and their number from each rank, int32 ``[size]``.
        """


@dataclass(frozen=True, eq=False)
class Sharding:
    """How a table is sharded.

    Attributes:
        name: of the table's variable.
        parts: one per rank.
    """

    name: str
    shape: tuple[int, int]
    parts: tuple[Part, ...]
    peers: Peers

    @property
    def mine(self) -> Part:
        """This rank's part."""
        return self.parts[self.peers.rank]


def sharding_of(variable: tf.Variable) -> Sharding | None:
    """The sharding of a table variable or of its optimizer state; None if it is whole."""
    return getattr(variable, _ATTRIBUTE, None)


def mark(variable: tf.Variable, sharding: Sharding) -> None:
    """Marks a variable as a table shard."""
    setattr(variable, _ATTRIBUTE, sharding)


def whole_shape(variable: tf.Variable) -> list[int]:
    sharding = sharding_of(variable)
    return list(sharding.shape) if sharding is not None else variable.shape.as_list()
