"""The trained model as a SavedModel that scores requests without any code of this workflow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from components.models import Model
from components.models.model import Searching, SharingUser
from components.scoring.model import SEARCH, SIGNATURE, TARGETS
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
            which returns {"search": [None, length] float32}; see :class:`components.models.model.Searching`. One that
            scores many targets of one user has the signature ``targets``, which takes [None] of the target's features
            and [1] or [1, length] of the others; see :class:`components.models.model.SharingUser`.
    """

    def serve(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        return {task.output: task.serve(model.logits(features, training=False))}

    signature = {
        name: tf.TensorSpec(spec.shape, spec.dtype if spec.dtype.is_floating else tf.int64, name=name)
        for name, spec in shapes.items()
    }
    signatures = {SIGNATURE: tf.function(serve, autograph=False).get_concrete_function(**signature)}
    if isinstance(model, Searching):
        searched = model.searched

        @tf.function(autograph=False)
        def search(**features: tf.Tensor) -> dict[str, tf.Tensor]:
            return {SEARCH: searched(features)}

        signatures[SEARCH] = search.get_concrete_function(**signature)
    if isinstance(model, SharingUser):
        of_one = {
            name: spec if name in model.target_features else tf.TensorSpec([1, *spec.shape[1:]], spec.dtype, name=name)
            for name, spec in signature.items()
        }
        # A function of its own, since a traced one would also serve shapes within its own.
        signatures[TARGETS] = tf.function(serve, autograph=False).get_concrete_function(**of_one)
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    served = _Served(tuple(model.variables))
    with disk_errors(folder):
        tf.saved_model.save(served, str(partial), signatures=signatures)
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)
