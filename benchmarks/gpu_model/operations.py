"""Cost of one operation on a GPU: launches, bytes and floating-point operations, from static shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import tensorflow as tf

# Operations without a launch: they alias or describe their inputs.
_FREE = {
    "Const", "Placeholder", "VarHandleOp", "NoOp", "Identity", "IdentityN", "ReadVariableOp", "Reshape", "ExpandDims",
    "Squeeze", "StopGradient", "PreventGradient", "Bitcast", "Shape", "ShapeN", "Size", "Rank", "BroadcastGradientArgs",
    "AssignVariableOp",  # takes over the buffer
    "DisableCopyOnRead",
}  # fmt: skip
_PASSES_ON = {"Identity", "IdentityN", "Reshape", "ExpandDims", "Squeeze", "StopGradient", "PreventGradient", "Bitcast"}
# Operations that read only the part of their input that they return.
_COPIES = {"StridedSlice", "Slice", "GatherV2", "Split", "SplitV", "Unpack"}
_PRODUCTS = {"MatMul": "transpose_a", "BatchMatMulV2": "adj_x", "BatchMatMulV3": "adj_x"}
_CALLS = {"PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile"}
_SMALL = 64  # integer tensors up to this size describe shapes, on the host

ELEMENTWISE = {
    "Add", "AddV2", "AddN", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "Neg", "Abs", "Sigmoid", "SigmoidGrad", "Tanh",
    "TanhGrad", "Relu", "ReluGrad", "Exp", "Log", "Log1p", "Softplus", "Reciprocal", "Square", "Sqrt", "Pow", "Cast",
    "Select", "SelectV2", "Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "LogicalAnd", "LogicalOr",
    "LogicalNot", "Minimum", "Maximum", "BiasAdd", "IsFinite", "Sign", "RightShift", "BitwiseAnd", "OnesLike",
    "MulNoNan", "ZerosLike", "FloorDiv", "FloorMod", "NotEqual", "Xlogy",
}  # fmt: skip
"""Element-wise operations, which may compute in place."""
MOVES = {
    "ConcatV2", "Pack", "Unpack", "Split", "SplitV", "StridedSlice", "Slice", "StridedSliceGrad", "Tile", "BroadcastTo",
    "Transpose", "Pad", "Fill", "Range", "ReverseV2", "MatrixBandPart",
}  # fmt: skip
REDUCES = {"Sum", "Max", "Min", "Mean", "All", "Any", "BiasAddGrad", "ArgMax", "Prod"}


@dataclass(frozen=True)
class Cost:
    """Cost of an operation.

    Attributes:
        launches: number of kernels.
        read, written: bytes.
        flops: floating-point operations.
        of_products: FLOPs of matrix products, which tensor cores can compute.
        half: whether the products are float16.
    """

    launches: int
    read: int
    written: int
    flops: float
    of_products: float
    half: bool

    @property
    def moved(self) -> int:
        return self.read + self.written


def size(tensor: tf.Tensor) -> int:
    """The bytes of a tensor.

    Raises:
        ValueError: its shape is not static.
    """
    elements = tensor.shape.num_elements()
    if elements is None:
        raise ValueError(f"{tensor.name} of {tensor.op.type} has the shape {tensor.shape}, which is not static")
    return elements * tensor.dtype.size


def is_on_host(tensor: tf.Tensor) -> bool:
    """Whether a tensor is in host memory: it describes a shape or is a variable's handle."""
    if tensor.dtype in (tf.resource, tf.string):
        return True
    return tensor.dtype == tf.int32 and (tensor.shape.num_elements() or 0) <= _SMALL


def passes_on(operation: tf.Operation) -> bool:
    """Whether the outputs alias the inputs."""
    return operation.type in _PASSES_ON or _splits_outermost(operation)


def is_free(operation: tf.Operation) -> bool:
    """Whether an operation launches no kernel."""
    if operation.type in _FREE or passes_on(operation):
        return True
    return bool(operation.outputs) and all(map(is_on_host, operation.outputs))


def cost(operation: tf.Operation) -> Cost:
    """Cost of an operation that is not free; repeated inputs are read once.

    Raises:
        ValueError: it calls a function, so its own shapes do not determine the cost.
    """
    if operation.type in _CALLS:
        raise ValueError(f"{operation.name} calls a function, which was not inlined")
    read = list(_read(operation))
    written = list(_written(operation))
    products = _product_flops(operation)
    flops = products or float(sum(_elements(tensor) for tensor in operation.outputs if not is_on_host(tensor)))
    half = any(tensor.dtype == tf.float16 for tensor in operation.outputs)
    return Cost(1, sum(read), sum(written), flops, products, half)


def variable_of(handle: tf.Tensor) -> int:
    """The bytes of the variable of a handle."""
    while handle.op.type in _PASSES_ON:
        handle = handle.op.inputs[0]
    shape = tf.TensorShape(handle.op.get_attr("shape"))
    return (shape.num_elements() or 0) * handle.op.get_attr("dtype").size


def _read(operation: tf.Operation) -> Iterator[int]:
    kind, inputs = operation.type, list({tensor.ref(): tensor for tensor in operation.inputs}.values())
    outputs = sum(size(tensor) for tensor in operation.outputs if not is_on_host(tensor))
    if kind in _COPIES:
        yield outputs
        if kind == "GatherV2":
            yield size(operation.inputs[1])
    elif kind == "ResourceGather":
        yield outputs
        yield size(operation.inputs[1])
    elif kind in ("ResourceApplyAdam", "ResourceApplyGradientDescent"):
        yield sum(variable_of(tensor) for tensor in inputs if tensor.dtype == tf.resource)
        yield sum(size(tensor) for tensor in inputs if not is_on_host(tensor))
    elif kind == "ResourceScatterAdd":
        yield size(operation.inputs[1]) + 2 * size(operation.inputs[2])
    elif kind.startswith("Assign"):  # AssignAdd, AssignSub
        yield 2 * size(operation.inputs[1])
    elif kind == "StridedSliceGrad":
        yield size(operation.inputs[4])
    else:
        yield sum(size(tensor) for tensor in inputs if not is_on_host(tensor))


def _written(operation: tf.Operation) -> Iterator[int]:
    kind = operation.type
    if kind in ("ResourceApplyAdam", "ResourceApplyGradientDescent"):
        yield sum(variable_of(tensor) for tensor in operation.inputs if tensor.dtype == tf.resource)
    elif kind == "ResourceScatterAdd":
        yield size(operation.inputs[2])
    elif kind.startswith("Assign"):
        yield size(operation.inputs[1])
    else:
        yield sum(size(tensor) for tensor in operation.outputs if not is_on_host(tensor))


def _product_flops(operation: tf.Operation) -> float:
    kind = operation.type
    if kind in _PRODUCTS:
        left = operation.inputs[0].shape
        inner = left[-2] if operation.get_attr(_PRODUCTS[kind]) else left[-1]
        return 2.0 * int(inner) * _elements(operation.outputs[0])
    return 0.0


def _splits_outermost(operation: tf.Operation) -> bool:
    """Whether an operation splits the first axis, so that aligned parts are views."""
    if operation.type == "StridedSlice":
        return _slices_outermost(operation)
    if operation.type == "Unpack":
        axis = operation.get_attr("axis")
    elif operation.type in ("Split", "SplitV"):
        dimension = tf.get_static_value(operation.inputs[0 if operation.type == "Split" else 2])
        axis = None if dimension is None else int(dimension)
    else:
        return False
    inner = math.prod(operation.outputs[0].shape[0 if operation.type == "Unpack" else 1 :].as_list() or [1])
    return axis == 0 and inner * operation.outputs[0].dtype.size % 64 == 0


def _slices_outermost(operation: tf.Operation) -> bool:
    """Whether a slice is a view in TensorFlow: all of its input, or a range of the first axis."""
    source, taken = operation.inputs[0].shape, operation.outputs[0].shape
    strides = tf.get_static_value(operation.inputs[3])
    if strides is None or any(stride != 1 for stride in strides):
        return False
    if source.num_elements() == taken.num_elements():
        return True
    begin = tf.get_static_value(operation.inputs[1])
    if source.rank == taken.rank == 1 and begin is not None:  # then the offset must be aligned
        bounds = int(begin[0]), int(begin[0]) + _elements(operation.outputs[0])
        return all(bound * operation.outputs[0].dtype.size % 64 == 0 for bound in bounds)
    inner = math.prod(source[1:].as_list()) * operation.outputs[0].dtype.size
    return source.rank == taken.rank and source[1:] == taken[1:] and inner % 64 == 0


def _elements(tensor: tf.Tensor) -> int:
    return tensor.shape.num_elements() or 0
