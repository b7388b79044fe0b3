"""Which operations a SavedModel may have: none that reads or writes files, runs Python, or talks to other processes.

A SavedModel is a program that TensorFlow runs, and TensorFlow has operations for all of these; the others are listed.
The graph is read before it is loaded, since loading already runs a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from components.errors import KfrecError
from components.scoring.stateless import STATELESS

# Stateful operations that touch nothing but the model's own variables, tables and random numbers.
_STATEFUL = frozenset(
    """
    Assert AssignAddVariableOp AssignSubVariableOp AssignVariableOp Case CheckNumerics CheckNumericsV2 CudnnRNN
    CudnnRNNV2 CudnnRNNV3 DisableCopyOnRead Empty HashTableV2 If InitializeTableV2 LookupTableExportV2
    LookupTableFindV2 LookupTableImportV2 LookupTableInsertV2 LookupTableSizeV2 MutableHashTableV2 RandomShuffle
    RandomStandardNormal RandomUniform RandomUniformInt ReadVariableOp ResourceGather ResourceGatherNd
    StatefulPartitionedCall StatelessRandomGetAlg TensorArrayCloseV3 TensorArrayConcatV3 TensorArrayGatherV3
    TensorArrayReadV3 TensorArrayScatterV3 TensorArraySizeV3 TensorArraySplitV3 TensorArrayV3 TensorArrayWriteV3
    TruncatedNormal VarHandleOp VarIsInitializedOp VariableShape While
    """.split()  # noqa: SIM905
)
# What writes and reads the weights, in two functions that only TensorFlow's saver calls.
_SAVING = {"save": frozenset(("MergeV2Checkpoints", "SaveV2", "ShardedFilename")), "restore": frozenset(("RestoreV2",))}
_SAVER = re.compile(r"__inference__traced_(save|restore)_\d+")


def require_harmless(saved: Path) -> None:
    """Reads the graphs of a SavedModel without running them.

    Raises:
        KfrecError: it has an operation of another kind, or no readable graph.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    path = saved / "saved_model.pb"
    try:
        model.ParseFromString(path.read_bytes())
    except (DecodeError, OSError) as error:
        raise KfrecError(f"{path}: not a SavedModel ({error}); run the train step again") from None
    for graph in model.meta_graphs:
        if not graph.object_graph_def.nodes:  # TensorFlow would run its saver's functions to load it
            raise KfrecError(
                f"{path}: has no object graph, as models of TensorFlow 1; save it with tf.saved_model.save"
            )
        for operation in _refused(graph):
            raise KfrecError(
                f"{path}: has the operation {operation}, which models need not have and which may reach files, Python "
                "or other processes; it is not loaded. Train the model without it"
            )


def _refused(graph: Any) -> Iterator[str]:
    """The operations of a graph that are not allowed."""
    saver = graph.saver_def
    ends = {name.partition(":")[0] for name in (saver.save_tensor_name, saver.restore_op_name) if name}
    signatures = graph.signature_def.values()
    served = {tensor.name.partition(":")[0] for signature in signatures for tensor in signature.outputs.values()}
    callers = ends - served
    saving = {name for node in graph.graph_def.node if node.name in callers for name in _functions(node)}
    saving = {name for name in saving if _SAVER.fullmatch(name)}
    saving -= set(graph.object_graph_def.concrete_functions)
    saving -= {name for node in graph.graph_def.node if node.name not in callers for name in _functions(node)}
    for function in graph.graph_def.library.function:
        saving -= {name for node in function.node_def for name in _functions(node)}
    yield from _of(graph.graph_def.node)
    for function in graph.graph_def.library.function:
        saver = _SAVER.fullmatch(function.signature.name) if function.signature.name in saving else None
        yield from _of(function.node_def, _SAVING[saver[1]] if saver else frozenset())


def _functions(node: Any) -> Iterator[str]:
    """The functions that a node calls."""
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (each.name for each in value.list.func)


def _of(nodes: Iterable[Any], saving: frozenset[str] = frozenset()) -> set[str]:
    return {node.op for node in nodes} - STATELESS - _STATEFUL - saving
