"""A training step as a flat graph: functions inlined, constants folded, all shapes static."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2, rewriter_config_pb2
from tensorflow.python.grappler import tf_optimizer

_PASSES = ("function", "constfold", "common_subgraph_elimination", "dependency", "constfold", "pruning")
_CONDITIONS = ("If", "StatelessIf")


@dataclass(frozen=True)
class FlatGraph:
    """The operations of a step.

    Attributes:
        operations: in topological order, as close to definition order as possible.
        compiled: names of the calls that XLA compiles; they are the scopes of the operations within.
        conditions: predicates that the host reads while it launches the step.
    """

    operations: tuple[tf.Operation, ...]
    compiled: frozenset[str]
    conditions: int

    def cluster(self, operation: tf.Operation) -> str:
        """The outermost compiled call around an operation; empty if there is none."""
        scopes = operation.name.split("/")
        names = ("/".join(scopes[:depth]) for depth in range(1, len(scopes)))
        return next((name for name in names if name in self.compiled), "")


def flatten(function: Any) -> FlatGraph:
    """Inlines, folds and prunes the graph of a concrete function, as TensorFlow does before it runs one.

    Conditions are replaced by their True branch.
    """
    definition = function.graph.as_graph_def()
    nodes = [definition.node, *(body.node_def for body in definition.library.function)]
    compiled_functions = {
        body.signature.name
        for body in definition.library.function
        if _removed(body.attr, "_XlaMustCompile", "_noinline")
    }
    for body in definition.library.function:
        if body.signature.name in compiled_functions:
            _keep_apart(body)
    conditions = 0
    for node in (node for part in nodes for node in part):
        _removed(node.attr, "_XlaMustCompile")
        if node.op in _CONDITIONS:
            _take_first_branch(node)
            conditions += 1
    _make_variables(definition, function)
    fetched = [tensor.name for tensor in tf.nest.flatten(function.graph.structured_outputs)]
    fetched += [operation.name for operation in function.graph.control_outputs]
    optimized = _optimized(definition, fetched)
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(optimized, name="")
    positions, compiled = _positions(definition, compiled_functions)
    return FlatGraph(tuple(_ordered(graph.get_operations(), positions)), compiled, conditions)


def _removed(attributes: Any, *names: str) -> bool:
    """Removes attributes; returns whether the first one existed."""
    removed = names[0] in attributes
    for name in names:
        if name in attributes:
            del attributes[name]
    return removed


def _keep_apart(body: Any) -> None:
    """Marks a compiled function's operations: no common-subexpression elimination across functions, as with XLA."""
    for node in body.node_def:
        node.attr["_compiled_in"].s = body.signature.name.encode()


def _take_first_branch(node: Any) -> None:
    predicate, *inputs = node.input
    branch = node.attr["then_branch"].func.name
    node.op = "PartitionedCall" if node.op == "StatelessIf" else "StatefulPartitionedCall"
    del node.input[:]
    node.input.extend([*inputs, "^" + predicate.split(":")[0]])
    for name in ("then_branch", "else_branch", "Tcond", "output_shapes"):
        _removed(node.attr, name)
    node.attr["f"].func.name = branch


def _make_variables(definition: Any, function: Any) -> None:
    """Replaces captured handles, which have no shape in the graph, by variables."""
    captured = {inner.op.name: outer for outer, inner in function.graph.captures if outer.dtype == tf.resource}
    for node in definition.node:
        if node.name not in captured:
            continue
        # The handle has the shape even if no operation reads the variable.
        held = captured[node.name]._handle_data.shape_and_type
        if len(held) != 1:
            continue
        node.op = "VarHandleOp"
        node.attr.clear()
        node.attr["dtype"].type = held[0].dtype
        node.attr["shape"].shape.CopyFrom(held[0].shape)
        node.attr["shared_name"].s = node.name.encode()


def _optimized(definition: Any, fetched: Iterable[str]) -> Any:
    graph = meta_graph_pb2.MetaGraphDef()
    graph.graph_def.CopyFrom(definition)
    graph.collection_def["train_op"].node_list.value.extend(fetched)
    settings = config_pb2.ConfigProto()
    rewrites = settings.graph_options.rewrite_options
    rewrites.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.TWO
    rewrites.min_graph_nodes = -1
    rewrites.optimizers[:] = _PASSES
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return tf_optimizer.OptimizeGraph(settings, graph)


def _positions(definition: Any, compiled: set[str]) -> tuple[dict[str, tuple[int, ...]], frozenset[str]]:
    """Inlined node name to its position in the order of the code.

    Args:
        compiled: names of functions.

    Returns:
        The positions, and the names of the nodes that call these functions.
    """
    bodies = {body.signature.name: body.node_def for body in definition.library.function}
    positions: dict[str, tuple[int, ...]] = {}
    names = set()

    def walk(nodes: Any, scope: str, before: tuple[int, ...]) -> None:
        for number, node in enumerate(nodes):
            position = (*before, number)
            positions[scope + node.name] = position
            called = node.attr["f"].func.name if "f" in node.attr else ""
            if called in compiled:
                names.add(scope + node.name)
            if called in bodies:
                walk(bodies[called], f"{scope}{node.name}/", position)

    walk(definition.node, "", ())
    return positions, frozenset(names)


def _ordered(operations: list[tf.Operation], positions: dict[str, tuple[int, ...]]) -> list[tf.Operation]:
    """A topological order that follows the code; nodes added by the optimizer come as early as possible."""
    waits: dict[str, set[str]] = {operation.name: set() for operation in operations}
    followers: dict[str, list[tf.Operation]] = {operation.name: [] for operation in operations}
    for operation in operations:
        for before in {tensor.op.name for tensor in operation.inputs} | {c.name for c in operation.control_inputs}:
            waits[operation.name].add(before)
            followers[before].append(operation)
    ready = [(positions.get(name, ()), name) for name, before in waits.items() if not before]
    heapq.heapify(ready)
    by_name = {operation.name: operation for operation in operations}
    order = []
    while ready:
        _, name = heapq.heappop(ready)
        order.append(by_name[name])
        for follower in followers[name]:
            waits[follower.name].discard(name)
            if not waits[follower.name]:
                heapq.heappush(ready, (positions.get(follower.name, ()), follower.name))
    return order
