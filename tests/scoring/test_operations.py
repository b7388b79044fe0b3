"""A SavedModel that could read or write files, or run Python, is refused before it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from components.errors import KfrecError
from components.scoring.model import load_saved_model
from components.scoring.operations import require_harmless


def saved(folder: Path, body: Callable[[Any], Any]) -> Path:
    module = tf.Module()
    module.weight = tf.Variable([1.0, 2.0])
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(["a"]), tf.constant([1.0])), 0.0
    )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def serve(x: Any) -> dict[str, Any]:
        return {"y": tf.reduce_sum(x) * module.weight + module.table.lookup(tf.constant(["a"])) + body(x)}

    tf.saved_model.save(module, str(folder), signatures={"serving_default": serve})
    return folder


def harmless(x: Any) -> Any:
    looped = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])[0]
    return tf.cast(looped, tf.float32) + tf.cond(tf.reduce_sum(x) > 0, lambda: 1.0, lambda: tf.random.uniform([]))


def written(folder: Path) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        with tf.control_dependencies([tf.io.write_file(str(folder / "planted"), "x")]):
            return tf.identity(0.0)

    return body


def _after(operation: Any) -> Any:
    with tf.control_dependencies([operation]):
        return tf.identity(0.0)


HARMFUL: dict[str, tuple[Callable[[Path], Callable[[Any], Any]], str]] = {
    "writes a file": (written, "WriteFile"),
    "reads a file": (
        lambda folder: lambda x: tf.cast(tf.strings.length(tf.io.read_file("/etc/passwd")), tf.float32), "ReadFile"
    ),
    "lists files": (
        lambda folder: lambda x: tf.cast(tf.size(tf.io.matching_files("/etc/*")), tf.float32), "MatchingFiles"
    ),
    "runs Python": (
        lambda folder: lambda x: tf.py_function(lambda v: v, [tf.constant(0.0)], tf.float32), "EagerPyFunc"
    ),
    "reads a checkpoint": (
        lambda folder: lambda x: tf.raw_ops.RestoreV2(
            prefix="/x", tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32])[0], "RestoreV2"
    ),
    "reads a file as a constant": (
        lambda folder: lambda x: tf.cast(
            tf.raw_ops.ImmutableConst(dtype=tf.uint8, shape=[1], memory_region_name="/etc/passwd"), tf.float32)[0],
        "ImmutableConst",
    ),
    "reads a vocabulary": (
        lambda folder: lambda x: tf.cast(tf.raw_ops.GenerateVocabRemapping(
            new_vocab_file="/etc/passwd", old_vocab_file="/etc/passwd", new_vocab_offset=0, num_new_vocab=1,
            old_vocab_size=-1)[1], tf.float32),
        "GenerateVocabRemapping",
    ),
    "ends the process": (
        lambda folder: lambda x: _after(tf.raw_ops.Abort(error_msg="", exit_without_error=True)), "Abort"
    ),
    "reads records": (
        lambda folder: lambda x: tf.cast(
            tf.data.TFRecordDataset("/etc/passwd").reduce(tf.constant(0), lambda n, _: n + 1), tf.float32),
        "Dataset",
    ),
}  # fmt: skip


def test_a_model_with_loops_branches_tables_and_random_numbers_is_loaded(tmp_path: Path) -> None:
    model = load_saved_model(saved(tmp_path / "model", harmless))
    found = model.signatures["serving_default"](x=tf.constant([1.0, 1.0]))["y"]
    np.testing.assert_allclose(found, [2 + 1 + 3 + 1, 4 + 1 + 3 + 1])


@pytest.mark.parametrize("kind", HARMFUL)
def test_a_model_that_reaches_out_is_refused(kind: str, tmp_path: Path) -> None:
    body, operation = HARMFUL[kind]
    model = saved(tmp_path / "model", body(tmp_path))
    with pytest.raises(KfrecError, match=rf"has the operation \w*{operation}\w*, which models need not have"):
        load_saved_model(model)
    assert not (tmp_path / "planted").exists()


def test_a_function_named_like_the_savers_is_refused_where_the_model_calls_it(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", harmless) / "saved_model.pb"
    content = saved_model_pb2.SavedModel()
    content.ParseFromString(path.read_bytes())
    graph = content.meta_graphs[0]
    library = graph.graph_def.library.function
    (saver,) = (each.signature.name for each in library if "traced_restore" in each.signature.name)
    caller = next(each for each in library if "signature_wrapper" in each.signature.name).node_def.add()
    caller.op, caller.name = "StatefulPartitionedCall", "restoring"
    caller.attr["f"].func.name = saver
    path.write_bytes(content.SerializeToString())
    with pytest.raises(KfrecError, match="has the operation RestoreV2"):
        require_harmless(path.parent)


def _edited(folder: Path, edit: Callable[[Any], None]) -> Path:
    """A model whose graph a function has changed."""
    path = saved(folder, harmless) / "saved_model.pb"
    content = saved_model_pb2.SavedModel()
    content.ParseFromString(path.read_bytes())
    edit(content.meta_graphs[0])
    path.write_bytes(content.SerializeToString())
    return folder


def test_a_model_without_an_object_graph_is_refused(tmp_path: Path) -> None:
    """TensorFlow runs the functions of its saver to load it, which may write files."""
    with pytest.raises(KfrecError, match=r"saved_model\.pb: has no object graph, as models of TensorFlow 1; save"):
        require_harmless(_edited(tmp_path, lambda graph: graph.ClearField("object_graph_def")))


@pytest.mark.parametrize(("function", "operation"), [("restore", "SaveV2"), ("save", "RestoreV2")])
def test_the_savers_functions_do_what_those_of_tensorflow_do(function: str, operation: str, tmp_path: Path) -> None:
    def edit(graph: Any) -> None:
        (saver,) = (each for each in graph.graph_def.library.function if f"traced_{function}" in each.signature.name)
        saver.node_def.add().op = operation

    with pytest.raises(KfrecError, match=f"has the operation {operation}, which models need not have"):
        require_harmless(_edited(tmp_path, edit))


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 100)
    with pytest.raises(KfrecError, match=r"saved_model\.pb: not a SavedModel"):
        require_harmless(tmp_path)
