"""Which operations a SavedModel may have: none that reads or writes files, runs Python, or talks to other processes.

A SavedModel is a program that TensorFlow runs, and TensorFlow has operations for all of these. The graph is read before
it is loaded, since loading already runs a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from components.errors import KfrecError

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
# Of the others: files, Python, data pipelines (which read files), debuggers, hosts and calls to other processes.
_REACHING_OUT = re.compile(r"File|PyFunc|Dataset|Iterator|Reader|Snapshot|Rpc|Debug|Sql|Host|Custom|TPU|Trt|Summary")
# What writes and reads the weights, in two functions that only TensorFlow's saver calls.
_SAVING = frozenset(("MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"))
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
    yield from _of(graph.graph_def.node, is_saver=False)
    for function in graph.graph_def.library.function:
        yield from _of(function.node_def, is_saver=function.signature.name in saving)


def _functions(node: Any) -> Iterator[str]:
    """The functions that a node calls."""
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (each.name for each in value.list.func)


def _of(nodes: Iterable[Any], *, is_saver: bool) -> Iterator[str]:
    from tensorflow.python.framework import op_def_registry

    for name in {node.op for node in nodes}:
        definition = op_def_registry.get(name)
        if definition is None:  # of a library that is not loaded; TensorFlow would not find it either
            yield name
        elif name in _STATEFUL or (is_saver and name in _SAVING):
            continue
        elif definition.is_stateful or _REACHING_OUT.search(name):
            yield name
