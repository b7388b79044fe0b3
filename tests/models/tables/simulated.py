"""Ranks that are threads of this process and exchange eager tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import tensorflow as tf

from tests.waiting import LONGEST

T = TypeVar("T")


class Simulated:
    """One of several ranks; see components.models.tables.placement.Peers.

    Attributes:
        received: numbers that came from other ranks.
    """

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, table: list[list[tf.Tensor]]) -> None:
        self.rank, self.size, self.received = rank, size, 0
        self._barrier, self._table = barrier, table

    def all_to_all(self, values: tf.Tensor, counts: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        self._table[self.rank] = tf.split(values, counts)
        self._barrier.wait(LONGEST)
        mine = [sent[self.rank] for sent in self._table]
        self._barrier.wait(LONGEST)
        self.received += sum(int(tf.size(part)) for rank, part in enumerate(mine) if rank != self.rank)
        return tf.concat(mine, 0), tf.constant([part.shape[0] for part in mine], tf.int32)


def on_simulated(size: int, function: Callable[[Simulated], T]) -> list[T]:
    """What a function returns on each rank."""
    barrier, table = threading.Barrier(size), [list[tf.Tensor]() for _ in range(size)]
    with ThreadPoolExecutor(size) as pool:
        running = [pool.submit(function, Simulated(rank, size, barrier, table)) for rank in range(size)]
        return [done.result() for done in running]
