"""Communication between the processes of one training: Horovod, or none for a single process.

A process without a launcher never imports Horovod, so it also runs without libmpi.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from components.errors import KfrecError, Unreachable, explain_os_error
from components.models.ops.rows import sum_by_row
from components.train.launching.transports import make_mpi_loadable

T = TypeVar("T")

# Set by horovodrun, Open MPI, and the PMI of MPICH and Slurm.
_LAUNCHED = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


# Horovod's default cycle of 1 ms takes a tenth of a core. A step on a CPU is long enough for a cycle of 10 ms.
_FOR_HOSTS = {"HOROVOD_CYCLE_TIME": "10"}
# A step on GPUs takes milliseconds: gradients are sent as soon as they are ready. The values are those of NVIDIA's
# published Horovod benchmarks; a fusion buffer of 64 MiB holds all dense gradients but a table's.
_FOR_GPUS = {"HOROVOD_CYCLE_TIME": "0.1", "HOROVOD_FUSION_THRESHOLD": str(64 << 20), "HOROVOD_NUM_NCCL_STREAMS": "2"}


class SharedError(KfrecError):
    """Bad input known to every rank; only the first rank reports it."""


class SharedUnreachable(SharedError, Unreachable):
    """A ``SharedError`` for a service that did not answer one of the ranks."""


class Ranks:
    """The processes that train together, seen from one of them; the methods here are those of a single one.

    Attributes:
        rank: number of this process, from 0.
        local_rank: number of this process on its machine, from 0.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        """The tensors summed over all ranks, in one all-reduce."""
        return list(tensors)

    def sum_slices(self, slices: tf.IndexedSlices, name: str) -> tf.IndexedSlices:
        """The slices of all ranks, all-gathered; duplicate rows are not summed."""
        return slices

    def gather_rows(self, values: tf.Tensor, name: str) -> tf.Tensor:
        """The tensors of all ranks, concatenated on their first axis by rank, in one all-gather."""
        return values

    def all_to_all(self, values: tf.Tensor, counts: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """All-to-all; see ``components.models.tables.placement.Peers.all_to_all``."""
        return values, counts

    def copy_variables(self, variables: Sequence[tf.Variable]) -> None:
        """Broadcasts the values of rank 0."""

    def from_first(self, value: T) -> T:
        """Rank 0's value, on every rank."""
        return value

    def gather(self, value: T) -> list[T]:
        """Every rank's value, by rank, on every rank."""
        return [value]

    def exchange(self, keys: np.ndarray, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        return list(columns)

    def end(self) -> None:
        """Waits until every rank is done, so that the others notice one that hangs while it finishes alone."""

    def sent_bytes(self) -> int:
        """Bytes of tensors that this process has sent so far.

        An all-to-all counts the rows for other ranks. All-reduce and all-gather count as on a ring: 2 (n - 1) / n of
        the tensor, and n - 1 times this rank's slices.
        """
        return 0


class Alone(Ranks):
    """A single process."""


class Horovod(Ranks):
    """One of several processes that a launcher started."""

    def __init__(self) -> None:
        make_mpi_loadable()
        on_gpu = bool(tf.config.list_physical_devices("GPU"))
        for name, value in (_FOR_GPUS if on_gpu else _FOR_HOSTS).items():
            os.environ.setdefault(name, value)
        import horovod.tensorflow as hvd

        hvd.init()
        self._hvd = hvd
        self.rank, self.size = hvd.rank(), hvd.size()
        self.local_rank, self.local_size = hvd.local_rank(), hvd.local_size()

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        for tensor in tensors:
            self._count(tensor, 2 * (self.size - 1) / self.size)
        return self._hvd.grouped_allreduce(list(tensors), op=self._hvd.Sum, name=name)

    def sum_slices(self, slices: tf.IndexedSlices, name: str) -> tf.IndexedSlices:
        # Sums duplicate rows first, so that each row is sent once.
        rows, values = sum_by_row(slices)
        for tensor in (rows, values):
            self._count(tensor, self.size - 1)
        summed = self._hvd.allgather(values, name=f"{name}_values")
        named = self._hvd.allgather(rows, name=f"{name}_indices")
        return tf.IndexedSlices(summed, named, slices.dense_shape)

    def gather_rows(self, values: tf.Tensor, name: str) -> tf.Tensor:
        self._count(values, self.size - 1)
        return self._hvd.allgather(values, name=name)

    def all_to_all(self, values: tf.Tensor, counts: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        others = (tf.shape(values)[0] - counts[self.rank]) * tf.reduce_prod(tf.shape(values)[1:])
        self._sent.assign_add(tf.cast(others, tf.float64) * values.dtype.size)
        return self._hvd.alltoall(values, splits=counts, name=name)

    def copy_variables(self, variables: Sequence[tf.Variable]) -> None:
        self._hvd.broadcast_variables(variables, root_rank=0)

    def from_first(self, value: T) -> T:
        return self._hvd.broadcast_object(value, root_rank=0)

    def gather(self, value: T) -> list[T]:
        return self._hvd.allgather_object(value)

    def exchange(self, keys: np.ndarray, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        owners = owners_of(keys, self.size)
        order, splits = np.argsort(owners, kind="stable"), np.bincount(owners, minlength=self.size)
        received = []
        with tf.device("CPU"):  # where the rows are
            for number, column in enumerate(columns):
                sent = tf.constant(column[order])
                values, _ = self.all_to_all(sent, tf.constant(splits, tf.int32), f"exchange_{number}")
                received.append(values.numpy())
        return received

    def end(self) -> None:
        self.gather(None)

    def sent_bytes(self) -> int:
        return int(self._sent.numpy())

    @cached_property
    def _sent(self) -> tf.Variable:
        # Lazy: the first variable fixes TensorFlow's threads and devices.
        with tf.init_scope():
            return tf.Variable(0.0, dtype=tf.float64, trainable=False, name="sent_bytes")

    def _count(self, tensor: tf.Tensor, times: float) -> None:
        self._sent.assign_add(tf.cast(tf.size(tensor), tf.float64) * (tensor.dtype.size * times))


def owners_of(keys: np.ndarray, size: int) -> np.ndarray:
    """The rank that owns each key, int64; balanced even if the keys have a common divisor."""
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing
    return ((mixed >> np.uint64(32)) % np.uint64(size)).astype(np.int64)


def connect() -> Ranks:
    """Joins the other processes, if a launcher started any."""
    return Horovod() if _is_launched() else Alone()


def disconnect() -> None:
    """Leaves the other processes, as the end of Python would do."""
    if _is_launched():
        import horovod.tensorflow as hvd

        hvd.shutdown()


def _is_launched() -> bool:
    return any(variable in os.environ for variable in _LAUNCHED)


def together(ranks: Ranks, job: Callable[[], T]) -> T:
    """Runs ``job`` on every rank and fails on every rank if it fails on one, so that no rank hangs.

    Raises:
        SharedUnreachable: a service did not answer the first rank that failed.
        SharedError: the first rank's bad input.
    """
    result: Any = None
    failure: tuple[str, type[SharedError]] | None = None
    try:
        result = job()
    except (KfrecError, OSError) as error:
        explained = explain_os_error(error) if isinstance(error, OSError) else error
        if explained is None:
            raise
        failure = str(explained), SharedUnreachable if isinstance(explained, Unreachable) else SharedError
    for first in ranks.gather(failure):
        if first is not None:
            message, kind = first
            raise kind(message)
    return result


def on_first(ranks: Ranks, job: Callable[[], T]) -> T:
    """Runs ``job`` on the first rank; returns its result on every rank, or fails on every rank as ``together``."""
    result: Any = together(ranks, lambda: job() if ranks.rank == 0 else None)
    return ranks.from_first(result)
