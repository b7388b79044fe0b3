"""The kernels that a GPU launches for a flat graph: one per operation, or one per XLA fusion."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from benchmarks.gpu_model import operations as ops
from benchmarks.gpu_model.graph import FlatGraph
from benchmarks.gpu_model.parts import part_of


@dataclass
class Kernel:
    """One launch, or several launches of one operation or fusion.

    Attributes:
        part: of the step, see ``benchmarks.gpu_model.parts``.
        operations: that it computes, in order.
        reads, writes: buffer to bytes; a buffer is named after the tensor that first filled it.
        cost: total.
    """

    part: str
    operations: tuple[tf.Operation, ...]
    reads: dict[str, int]
    writes: dict[str, int]
    cost: ops.Cost

    @property
    def writes_over_inputs(self) -> bool:
        """Whether it may compute in place, over an input that nothing else reads."""
        return all(operation.type in ops.ELEMENTWISE for operation in self.operations)


@dataclass
class Launched:
    """The kernels of a step, in order, and the buffers that outlive it.

    Attributes:
        kernels: in an executable order.
        kept: bytes of variables and of the batch.
        sent: bytes of each tensor of the batch that the host copies to the GPU.
    """

    kernels: list[Kernel]
    kept: int
    sent: tuple[int, ...]
    _last: dict[str, int] = field(default_factory=dict)

    @property
    def peak(self) -> int:
        """Peak memory in bytes: buffers that outlive the step, and others from first to last use."""
        last = {name: number for number, kernel in enumerate(self.kernels) for name in kernel.reads}
        live: dict[str, int] = {}
        peak = 0
        for number, kernel in enumerate(self.kernels):
            ending = [name for name in kernel.reads if last[name] == number and name in live]
            extra = dict(kernel.writes)
            if kernel.writes_over_inputs:
                free = [live[name] for name in ending]
                extra = {name: held for name, held in extra.items() if not _take(free, held)}
            peak = max(peak, sum(live.values()) + sum(extra.values()))
            for name in ending:
                del live[name]
            live.update({name: held for name, held in kernel.writes.items() if name in last})
        return peak + self.kept


def launched(graph: FlatGraph) -> Launched:
    """The kernels of a flat graph."""
    buffers = _buffers(graph.operations)
    kept = 0
    sent: list[int] = []
    working = []
    for operation in graph.operations:
        if operation.type == "VarHandleOp":
            kept += ops.variable_of(operation.outputs[0])
        elif operation.type == "Placeholder":
            sent += [ops.size(tensor) for tensor in operation.outputs if tensor.dtype != tf.resource]
        elif not ops.is_free(operation):
            working.append(operation)
    kernels = [_kernel(group, buffers, graph) for group in _groups(graph, working)]
    return Launched(_ordered(kernels), kept + sum(sent), tuple(sent))


def _take(free: list[int], wanted: int) -> bool:
    """Takes one buffer of this size from the free list, if it has one."""
    if wanted in free:
        free.remove(wanted)
        return True
    return False


def _buffers(operations: Iterable[tf.Operation]) -> dict[str, tf.Tensor]:
    """Tensor name to the tensor that owns its memory."""
    buffers: dict[str, tf.Tensor] = {}
    for operation in operations:
        on_device = (tensor for tensor in operation.inputs if not ops.is_on_host(tensor))
        source = next(on_device, None) if ops.passes_on(operation) else None
        for number, tensor in enumerate(operation.outputs):
            result = operation.inputs[number] if operation.type == "IdentityN" else source
            buffers[tensor.name] = tensor if result is None else buffers[result.name]
    return buffers


def _is_fusible(operation: tf.Operation) -> bool:
    return operation.type in ops.ELEMENTWISE | ops.MOVES | ops.REDUCES | {"Softmax", "UnsortedSegmentSum"}


def _groups(graph: FlatGraph, working: Sequence[tf.Operation]) -> list[list[tf.Operation]]:
    """Operations that one kernel computes.

    XLA fuses element-wise and data-movement operations into their consumers, and reductions into their producers. A
    product is a separate kernel; its producers and consumers are in different fusions, so the fusions are acyclic.
    Inputs of a compiled call exist before it starts.
    """
    level: dict[str, int] = defaultdict(int)
    leader: dict[str, str] = {}
    working_names = {operation.name for operation in working}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    def fuses(source: tf.Operation, reader: tf.Operation) -> bool:
        if not (cluster := graph.cluster(reader)) or graph.cluster(source) != cluster or not _is_fusible(reader):
            return False
        return source.type in ops.ELEMENTWISE | ops.MOVES

    sources: dict[str, list[tf.Operation]] = {}
    for operation in graph.operations:  # a free operation stands for its inputs
        operations: list[tf.Operation] = []
        for tensor in operation.inputs:
            operations += [tensor.op] if tensor.op.name in working_names else sources.get(tensor.op.name, [])
        sources[operation.name] = operations
        if operation.name not in working_names:
            continue
        leader[operation.name] = operation.name
        inside = [source for source in operations if graph.cluster(source) == graph.cluster(operation)]
        level[operation.name] = max((level[s.name] + (0 if fuses(s, operation) else 1) for s in inside), default=0)
        for source in operations:
            if fuses(source, operation) and level[source.name] == level[operation.name]:
                leader[find(source.name)] = find(operation.name)
    groups: dict[str, list[tf.Operation]] = defaultdict(list)
    for operation in working:
        groups[find(operation.name)].append(operation)
    return list(groups.values())


def _kernel(group: list[tf.Operation], buffers: dict[str, tf.Tensor], graph: FlatGraph) -> Kernel:
    inside = {tensor.name for operation in group for tensor in operation.outputs}
    reads, writes = {}, {}
    for operation in group:
        for tensor in operation.inputs:
            source = buffers[tensor.name]
            if source.name not in inside and not ops.is_on_host(source) and source.op.type not in ("Const",):
                reads[source.name] = ops.size(source)
        for tensor in operation.outputs:
            if not ops.is_on_host(tensor) and (len(group) == 1 or _leaves(tensor, group)):
                writes[tensor.name] = ops.size(tensor)
    part = part_of(group[-1])
    if len(group) == 1:
        return Kernel(part, (group[0],), reads, writes, ops.cost(group[0]))
    costs = [ops.cost(operation) for operation in group]
    launches = len({_iterations(operation) for operation in group if any(t.name in writes for t in operation.outputs)})
    cost = ops.Cost(
        max(launches, 1),
        _fused_read(group, inside, buffers),
        sum(writes.values()),
        sum(c.flops for c in costs),
        0.0,
        False,
    )
    return Kernel(part, tuple(group), reads, writes, cost)


def _fused_read(group: list[tf.Operation], inside: set[str], buffers: dict[str, tf.Tensor]) -> int:
    """Bytes that a fusion reads: the required part of each outside tensor, once."""
    read: dict[str, int] = {}
    for operation in group:
        reads_all = operation.type not in ("StridedSlice", "Slice", "Split", "SplitV", "Unpack")
        for tensor in operation.inputs:
            if buffers[tensor.name].name in inside or ops.is_on_host(tensor):
                continue
            wanted = ops.size(tensor) if reads_all else sum(map(ops.size, operation.outputs))
            read[tensor.name] = min(ops.size(tensor), max(wanted, read.get(tensor.name, 0)))
    return sum(read.values())


def _leaves(tensor: tf.Tensor, group: list[tf.Operation]) -> bool:
    """Whether an operation outside the group reads a tensor, directly or through pass-through operations."""
    names = {operation.name for operation in group}
    return not tensor.consumers() or any(
        _leaves_through(reader, names, tensor) for reader in tensor.consumers() if reader.name not in names
    )


def _leaves_through(reader: tf.Operation, names: set[str], tensor: tf.Tensor) -> bool:
    if not ops.passes_on(reader):
        return not (ops.is_free(reader) and reader.type in ("Shape", "ShapeN", "Size", "Rank"))
    outputs = [reader.outputs[list(reader.inputs).index(tensor)]] if reader.type == "IdentityN" else reader.outputs
    return any(
        not output.consumers() or any(
            _leaves_through(next_reader, names, output) for next_reader in output.consumers()
            if next_reader.name not in names
        )
        for output in outputs
    )  # fmt: skip


def _iterations(operation: tf.Operation) -> int:
    """Number of elements that a kernel iterates over for an operation."""
    tensors = operation.inputs if operation.type in ops.REDUCES else operation.outputs
    return max((tensor.shape.num_elements() or 0 for tensor in tensors), default=0)


def _ordered(kernels: list[Kernel]) -> list[Kernel]:
    """A stable topological order of kernels."""
    writer = {name: number for number, kernel in enumerate(kernels) for name in kernel.writes}
    waits = [{writer[name] for name in kernel.reads if name in writer} - {n} for n, kernel in enumerate(kernels)]
    followers: dict[int, list[int]] = defaultdict(list)
    for number, before in enumerate(waits):
        for other in before:
            followers[other].append(number)
    ready = [number for number, before in enumerate(waits) if not before]
    heapq.heapify(ready)
    order = []
    while ready:
        number = heapq.heappop(ready)
        order.append(kernels[number])
        for follower in followers[number]:
            waits[follower].discard(number)
            if not waits[follower]:
                heapq.heappush(ready, follower)
    if len(order) != len(kernels):
        raise ValueError("the fusions wait for each other")
    return order
