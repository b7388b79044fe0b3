"""The global batch: what layers and losses see of the samples of other ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import tensorflow as tf

from components.errors import KfrecError
from components.models.ops.choice import is_compiled

# A collective operation on a tensor; takes the tensor and the name of the operation.
Collective = Callable[[tf.Tensor, str], tf.Tensor]


class Batch(NamedTuple):
    """How a trace sees the global batch.

    Attributes:
        summing: sums a tensor over the ranks; None for a single rank.
        gathering: concatenates the tensors of all ranks on their first axis, by rank; None for a single rank.
        counted: float32 ``[B]``, 0 for padding samples of this rank's share; None for no padding.
        is_whole: false if this is a micro-batch, a part of the rank's share.
        has_statistics: false where the counts of a loss are read alone, and layers leave their moving averages as they
            are.
    """

    rank: int = 0
    summing: Collective | None = None
    gathering: Collective | None = None
    counted: tf.Tensor | None = None
    is_whole: bool = True
    has_statistics: bool = True


class Gathered(NamedTuple):
    """The rows of all ranks.

    Attributes:
        values: ``[sum of B, ...]``, by rank.
        first: place of this rank's first row, an int32 scalar.
    """

    values: tf.Tensor
    first: tf.Tensor


_ALONE = Batch()
_batch = ContextVar("global_batch", default=_ALONE)


@contextmanager
def global_batch(batch: Batch) -> Iterator[None]:
    """Layers and losses traced within, gradients included, see this batch."""
    token = _batch.set(batch)
    try:
        yield
    finally:
        _batch.reset(token)


def this_batch() -> Batch:
    """The batch of the current trace; outside of a training that of a single rank without padding."""
    return _batch.get()


def summed_over_ranks(values: tf.Tensor, name: str) -> tf.Tensor:
    """The sum of the ranks' tensors, a collective operation; each rank's gradient is the sum of all ranks' gradients.

    Args:
        values: of the same shape on every rank.
        name: of the operation, unique in the model.

    Raises:
        KfrecError: XLA compiles the trace, or it is of a micro-batch.
    """
    require_whole(name)
    summing = _collective(this_batch().summing, name)
    if summing is None:
        return values

    @tf.custom_gradient
    def summed(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return summing(values, name), lambda upstream: summing(upstream, f"{name}_gradient")

    return summed(values)


def gathered_over_ranks(values: tf.Tensor, name: str) -> Gathered:
    """The rows of all ranks, a collective operation, for losses that depend on the whole global batch.

    Each rank differentiates its own share of the loss. The gradient of a row is therefore the sum of what all ranks'
    shares say about it, so that the loss and its gradient do not depend on the number of ranks. Only the rows of this
    rank's ``mask`` are samples: gather that, too.

    Args:
        values: ``[B, ...]``; B may differ by rank.
        name: of the operation, unique in the model.

    Raises:
        KfrecError: XLA compiles the trace, or it is of a micro-batch.

    Examples:
        >>> items = tf.constant([[1.0, 0.0], [0.0, 1.0]])
        >>> gathered_over_ranks(items, "items").values.shape
        TensorShape([2, 2])
    """
    require_whole(name)
    batch, rows = this_batch(), tf.shape(values)[0]
    gathering, summing = _collective(batch.gathering, name), batch.summing
    if gathering is None or summing is None:
        return Gathered(values, tf.constant(0))
    counts = gathering(rows[tf.newaxis], f"{name}_rows")
    first = tf.reduce_sum(counts[: batch.rank])

    @tf.custom_gradient
    def gathered(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return gathering(values, name), lambda upstream: summing(upstream, f"{name}_gradient")[first : first + rows]

    return Gathered(gathered(values), first)


def require_whole(name: str) -> None:
    """Checks that the trace is of the whole batch, as ``name`` needs it.

    Raises:
        KfrecError: it is of a micro-batch.
    """
    if not this_batch().is_whole:
        raise KfrecError(
            f"parameter micro_batch_size: {name} is computed over the whole batch, and micro-batches would change it; "
            "set it to 0, or turn that off"
        )


def _collective(operation: Collective | None, name: str) -> Collective | None:
    if operation is not None and is_compiled():
        raise KfrecError(
            f"parameter xla=True: XLA cannot compile the collective operation {name} of several ranks; turn xla off, "
            "or train with one worker"
        )
    return operation
