"""The trained model as a SavedModel that scores requests without any code of this workflow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from components.models import Model
from components.models.model import Searching
from components.scoring.model import SEARCH, SIGNATURE
from components.tasks import TaskDefinition
from components.train.checkpoints.disk import disk_errors


class _Served(tf.Module):
    """The object to save: the variables that the signature reads."""

    def __init__(self, variables: tuple[tf.Variable, ...]) -> None:
        super().__init__()
        self.weights = variables


def export(model: Model, task: TaskDefinition, shapes: Mapping[str, tf.TensorSpec], folder: Path) -> None:
    """Writes ``folder`` atomically, replacing an earlier one.

    Args:
        model: what to export.
        task: defines the served output.
        shapes: serving features by name, [None] or [None, length].
        folder: the SavedModel's folder. Its signature ``serving_default`` takes ids as int64 and floats as float32, and
            returns {task.output: [None] float32}. A model that searches a history has the signature ``search`` too,
            which returns {"search": [None, length] float32}; see :class:`components.models.model.Searching`.
    """

    @tf.function(autograph=False)
    def serve(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        return {task.output: task.serve(model.logits(features, training=False))}

    signature = {
        name: tf.TensorSpec(spec.shape, spec.dtype if spec.dtype.is_floating else tf.int64, name=name)
        for name, spec in shapes.items()
    }
    signatures = {SIGNATURE: serve.get_concrete_function(**signature)}
    if isinstance(model, Searching):
        searched = model.searched

        @tf.function(autograph=False)
        def search(**features: tf.Tensor) -> dict[str, tf.Tensor]:
            return {SEARCH: searched(features)}

        signatures[SEARCH] = search.get_concrete_function(**signature)
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    served = _Served(tuple(model.variables))
    with disk_errors(folder):
        tf.saved_model.save(served, str(partial), signatures=signatures)
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)
