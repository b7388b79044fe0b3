"""How a batch gets from the arrays of the reader to the device that computes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from components.models.ops.choice import has_gpu
from components.native.arrays import ALIGNMENT

Batch = Mapping[str, np.ndarray]
"""int32 or float32 by feature, ``[B]`` or ``[B, length]``."""


class Transfer(Protocol):
    """A way to hand batches over.

    Attributes:
        signature: of what a step takes.
    """

    signature: Any

    def sent(self, batch: Batch) -> Any:
        """What a step takes, on the device that computes."""

    def features(self, given: Any) -> dict[str, tf.Tensor]:
        """The batch by feature, ``[B]`` or ``[B, length]``, from what a step takes; a part of the step."""

    def rows(self, given: Any) -> int:
        """Samples of what a step takes."""


def transfer(signature: Mapping[str, tf.TensorSpec]) -> Transfer:
    """The way that fits the device.

    Args:
        signature: of a batch by feature, floats or ids of :func:`id_type`.
    """
    return Packed(signature) if has_gpu() else Shared(signature)


class Shared:
    """Tensors in the memory of the reader's arrays: without a GPU nothing has to travel."""

    def __init__(self, signature: Mapping[str, tf.TensorSpec]) -> None:
        self.signature = dict(signature)

    def sent(self, batch: Batch) -> dict[str, tf.Tensor]:
        return tensors(batch)

    def features(self, given: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return dict(given)

    def rows(self, given: Mapping[str, tf.Tensor]) -> int:
        return int(next(iter(given.values())).shape[0])


class Packed:
    """One tensor a batch, copied from pinned memory and taken apart on the GPU.

    It holds 32 bits a value: the ids of all features, one feature behind the other, then the floats. The step casts all
    ids at once, to int64, in which a GPU computes; a feature is then a slice of the result, which TensorFlow does not
    copy where it begins and ends at multiples of 64 bytes, as it does for a multiple of 8 samples.

    The tensor is float32, whatever its bits mean: TensorFlow keeps int32 in the host's memory. Nothing computes with it
    before its ids have their own type again.

    What makes the copy one of pinned memory, beside the computation, is TensorFlow's (2.15):

    - An operation on the CPU whose output goes to a GPU allocates it in pinned memory, if it allocates at all
      (``InferAllocAttr`` in ``common_runtime/graph_view.cc``). So the features are joined on the CPU by the function
      that sends them. An output that were pageable nevertheless would be staged in pinned memory
      (``NeedStaging`` in ``common_runtime/gpu/gpu_util.cc``).
    - Copies from the host have a stream of their own, which waits for the kernels that were launched before, because
      they may use the memory that it writes to, and for none that is launched later. So a copy runs beside the next
      step if the reader's thread (:func:`components.records.prefetched`) is two batches ahead.

    ``tf.data.experimental.prefetch_to_device`` copies by the same means, but takes its elements from a data set: from
    Python's arrays by another copy.

    Args:
        signature: of a batch by feature, of which at least the label is integer: float32, or the type that ids get on
            the GPU. All have the same first dimension.
        device: that computes.
    """

    def __init__(self, signature: Mapping[str, tf.TensorSpec], device: str = "GPU:0") -> None:
        floats = {name: spec for name, spec in signature.items() if spec.dtype.is_floating}
        self._ids = {name: spec for name, spec in signature.items() if name not in floats}
        self._floats, self._device = floats, device
        self._width = sum(map(_width, signature.values()))
        (self._kind,) = {spec.dtype for spec in self._ids.values()}
        (samples,) = {spec.shape[0] for spec in signature.values()}
        self.signature = tf.TensorSpec([None if samples is None else samples * self._width], tf.float32, "packed")
        parts = [tf.TensorSpec([None], tf.float32)] * len(signature)
        self._join = tf.function(self._joined, input_signature=[parts], autograph=False)

    def sent(self, batch: Batch) -> tf.Tensor:
        with tf.device("CPU:0"):
            parts = [_tensor(_bits(batch[name], np.int32), tf.float32) for name in self._ids]
            parts += [_tensor(_bits(batch[name], np.float32), tf.float32) for name in self._floats]
        # A function leaves its result on the device of its caller.
        with tf.device(self._device):
            return self._join(parts)

    def features(self, given: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.name_scope("unpack"):
            size = given.shape[0]
            rows = (tf.shape(given)[0] if size is None else size) // self._width
            end = rows * sum(map(_width, self._ids.values()))
            ids = tf.cast(tf.bitcast(given[:end], tf.int32), self._kind)
            found, begin = {}, 0
            for name, spec in {**self._ids, **self._floats}.items():
                found[name], begin = _taken(ids if name in self._ids else given, spec, begin, rows)
        return found

    def rows(self, given: tf.Tensor) -> int:
        return int(given.shape[0]) // self._width

    def _joined(self, parts: Sequence[tf.Tensor]) -> tf.Tensor:
        with tf.device("CPU:0"):
            joined = tf.concat(parts, 0)
        with tf.device(self._device):
            return tf.identity(joined)


def _bits(values: np.ndarray, kind: type[np.generic]) -> np.ndarray:
    """Values of 32 bits as flat float32 of the same bits."""
    return values.reshape(-1).astype(kind, copy=False).view(np.float32)


def _width(spec: tf.TensorSpec) -> int:
    """Values of a sample."""
    return math.prod(spec.shape[1:].as_list())


def _taken(values: tf.Tensor, spec: tf.TensorSpec, begin: Any, rows: Any) -> tuple[tf.Tensor, Any]:
    """A feature's part of flat values, and where the next one begins."""
    end = begin + rows * _width(spec)
    return tf.reshape(values[begin:end], [-1, *spec.shape[1:]]), end


def id_type() -> tf.DType:
    """The type of ids in a step: int64 where there is a GPU, else int32, which is half as large.

    TensorFlow keeps int32 in the host's memory and computes with it there even where a GPU does the rest, so that such
    ids would be prepared by the CPU and sent in the middle of a step.
    """
    return tf.int64 if has_gpu() else tf.int32


def tensors(batch: Batch) -> dict[str, tf.Tensor]:
    """A batch by feature in the host's memory, that of the arrays where it can be."""
    kinds = {name: tf.float32 if values.dtype == np.float32 else tf.int32 for name, values in batch.items()}
    return {name: _tensor(values, kinds[name]) for name, values in batch.items()}


def _tensor(values: np.ndarray, wanted: tf.DType) -> tf.Tensor:
    """An array as a tensor, which shares its memory where it may stay what and where it is."""
    shares = wanted == values.dtype and values.size and values.flags.c_contiguous and values.flags.writeable
    if shares and values.ctypes.data % ALIGNMENT == 0:
        return tf.experimental.dlpack.from_dlpack(values.__dlpack__())
    return tf.cast(tf.constant(values), wanted)
