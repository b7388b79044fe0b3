"""Transfers batches from the reader's arrays to the device."""

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
    """Transfers batches to the device.

    Attributes:
        signature: of a transferred batch, the input of a step.
    """

    signature: Any

    def sent(self, batch: Batch) -> Any:
        """The transferred batch, on the device."""

    def features(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Unpacks a transferred batch by feature, ``[B]`` or ``[B, length]``, within the step."""

    def rows(self, inputs: Any) -> int:
        """Number of samples of a transferred batch."""


def transfer(signature: Mapping[str, tf.TensorSpec]) -> Transfer:
    """The transfer for this machine's device.

    Args:
        signature: of a batch by feature, floats or ids of ``id_type``.
    """
    return Packed(signature) if has_gpu() else Shared(signature)


class Shared:
    """Tensors that share the memory of the reader's arrays, for the CPU."""

    def __init__(self, signature: Mapping[str, tf.TensorSpec]) -> None:
        self.signature = dict(signature)

    def sent(self, batch: Batch) -> dict[str, tf.Tensor]:
        return tensors(batch)

    def features(self, inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return dict(inputs)

    def rows(self, inputs: Mapping[str, tf.Tensor]) -> int:
        return int(next(iter(inputs.values())).shape[0])


class Packed:
    """One tensor per batch, copied from pinned memory and unpacked on the GPU.

    It holds 32-bit values: the ids of all features, feature by feature, then the floats. The step casts all ids to
    int64 at once; a feature is a slice of the result. TensorFlow does not copy a slice that is aligned to 64 bytes,
    which holds if the batch size is a multiple of 8.

    The tensor's type is float32, because TensorFlow keeps int32 in host memory. Ids are bitcast back before any
    computation.

    TensorFlow (2.15) makes the copy pinned and asynchronous:

    - A CPU operation that feeds a GPU allocates its output in pinned memory, if it allocates at all
      (``InferAllocAttr`` in ``common_runtime/graph_view.cc``). The function that sends the features therefore
      concatenates them on the CPU. Pageable outputs are staged in pinned memory
      (``NeedStaging`` in ``common_runtime/gpu/gpu_util.cc``).
    - Host-to-device copies have their own stream. It waits for kernels launched earlier, which may use the destination
      memory, but not for later ones. A copy therefore overlaps the next step if the reader's thread
      (``components.records.prefetched``) is two batches ahead.

    ``tf.data.experimental.prefetch_to_device`` copies in the same way, but needs a data set, and so another copy of
    Python's arrays.

    Args:
        signature: of a batch by feature: float32, or the GPU's type of ids. All have the same first dimension.
    """

    def __init__(self, signature: Mapping[str, tf.TensorSpec], device: str = "GPU:0") -> None:
        floats = {name: spec for name, spec in signature.items() if spec.dtype.is_floating}
        self._ids = {name: spec for name, spec in signature.items() if name not in floats}
        self._floats, self._device = floats, device
        self._width = sum(map(_width, signature.values()))
        (self._kind,) = {spec.dtype for spec in self._ids.values()} or {id_type()}
        (samples,) = {spec.shape[0] for spec in signature.values()}
        self.signature = tf.TensorSpec([None if samples is None else samples * self._width], tf.float32, "packed")
        parts = [tf.TensorSpec([None], tf.float32)] * len(signature)
        self._join = tf.function(self._joined, input_signature=[parts], autograph=False)

    def sent(self, batch: Batch) -> tf.Tensor:
        with tf.device("CPU:0"):
            parts = [_tensor(_bits(batch[name], np.int32), tf.float32) for name in self._ids]
            parts += [_tensor(_bits(batch[name], np.float32), tf.float32) for name in self._floats]
        # A function's result stays on the caller's device.
        with tf.device(self._device):
            return self._join(parts)

    def features(self, packed: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.name_scope("unpack"):
            size = packed.shape[0]
            rows = (tf.shape(packed)[0] if size is None else size) // self._width
            end = rows * sum(map(_width, self._ids.values()))
            ids = tf.cast(tf.bitcast(packed[:end], tf.int32), self._kind)
            features, begin = {}, 0
            for name, spec in {**self._ids, **self._floats}.items():
                features[name], begin = _taken(ids if name in self._ids else packed, spec, begin, rows)
        return features

    def rows(self, packed: tf.Tensor) -> int:
        return int(packed.shape[0]) // self._width

    def _joined(self, parts: Sequence[tf.Tensor]) -> tf.Tensor:
        with tf.device("CPU:0"):
            joined = tf.concat(parts, 0)
        with tf.device(self._device):
            return tf.identity(joined)


def _bits(values: np.ndarray, kind: type[np.generic]) -> np.ndarray:
    """32-bit values, flattened and viewed as float32."""
    return values.reshape(-1).astype(kind, copy=False).view(np.float32)


def _width(spec: tf.TensorSpec) -> int:
    """Values per sample."""
    return math.prod(spec.shape[1:].as_list())


def _taken(values: tf.Tensor, spec: tf.TensorSpec, begin: Any, rows: Any) -> tuple[tf.Tensor, Any]:
    """A feature's slice of the flat values, and the offset of the next one."""
    end = begin + rows * _width(spec)
    return tf.reshape(values[begin:end], [-1, *spec.shape[1:]]), end


def id_type() -> tf.DType:
    """The type of ids in a step: int64 on a GPU, else int32, which is half as large.

    TensorFlow places int32 tensors and operations on the host even if a GPU is present, so int32 ids would be copied to
    the GPU in the middle of a step.
    """
    return tf.int64 if has_gpu() else tf.int32


def tensors(batch: Batch) -> dict[str, tf.Tensor]:
    """A batch by feature in host memory, shared with the arrays if possible."""
    kinds = {name: tf.float32 if values.dtype == np.float32 else tf.int32 for name, values in batch.items()}
    return {name: _tensor(values, kinds[name]) for name, values in batch.items()}


def _tensor(values: np.ndarray, wanted: tf.DType) -> tf.Tensor:
    """An array as a tensor; shares its memory if type, layout and alignment allow."""
    shares = wanted == values.dtype and values.size and values.flags.c_contiguous and values.flags.writeable
    if shares and values.ctypes.data % ALIGNMENT == 0:
        return tf.experimental.dlpack.from_dlpack(values.__dlpack__())
    return tf.cast(tf.constant(values), wanted)
