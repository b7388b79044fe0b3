"""The trained model as a SavedModel that scores requests without any code of this workflow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.errors import KfrecError
from components.models import Model
from components.models.model import Explaining, Retrieving, SharingUser, outputs_of
from components.scoring.model import EXPLAIN, SIGNATURE, TARGET_VECTORS, TARGETS, USER_VECTORS, VECTOR
from components.scoring.signature import Output, Signature, write_signature
from components.tasks import TaskDefinition
from components.train.loop.state import BY_NAME, disk_errors, named_state_of


class _Served(tf.Module):
    """The object to save: the model's variables, by name."""

    def __init__(self, variables: Mapping[str, tf.Variable]) -> None:
        super().__init__()
        setattr(self, BY_NAME, dict(variables))


def export(model: Model, task: TaskDefinition, shapes: Mapping[str, tf.TensorSpec], folder: Path) -> None:
    """Writes ``folder`` atomically, replacing an earlier one.

    Args:
        shapes: serving features by name, [None] or [None, length].
        folder: the SavedModel's folder. Its signature ``serving_default`` takes ids as int64 and floats as float32, and
            returns the outputs of ``task.serve``, [None, ...] each. A model that explains them has the signature
            ``explain`` too; see ``components.models.model.Explaining``. One that scores many targets of one user
            has the signature ``targets``, which takes [None] of the target's features and [1] or [1, length] of the
            others; see ``components.models.model.SharingUser``. One that orders targets by a dot product has the
            signatures ``user_vectors`` and ``target_vectors``; see ``components.models.model.Retrieving``.
    """

    def serve(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        served = task.serve(outputs_of(model, features))
        if not isinstance(served, Mapping) or not served:
            raise KfrecError(f"task {task.name}: serve returns a {type(served).__name__}; return outputs by name")
        return dict(served)

    signature = {
        name: tf.TensorSpec(spec.shape, spec.dtype if spec.dtype.is_floating else tf.int64, name=name)
        for name, spec in shapes.items()
    }
    signatures = {SIGNATURE: tf.function(serve, autograph=False).get_concrete_function(**signature)}
    if isinstance(model, Explaining):
        own = model.explain

        @tf.function(autograph=False)
        def explain(**features: tf.Tensor) -> dict[str, tf.Tensor]:
            return dict(own(features))

        signatures[EXPLAIN] = explain.get_concrete_function(**signature)
    if isinstance(model, SharingUser):
        of_one = {
            name: spec if name in model.target_features else tf.TensorSpec([1, *spec.shape[1:]], spec.dtype, name=name)
            for name, spec in signature.items()
        }
        # A function of its own, since a traced one would also serve shapes within its own.
        signatures[TARGETS] = tf.function(serve, autograph=False).get_concrete_function(**of_one)
    if isinstance(model, Retrieving):
        halves = {USER_VECTORS: model.user_vectors, TARGET_VECTORS: model.target_vectors}
        for name, vectors in halves.items():
            read = {
                feature: spec
                for feature, spec in signature.items()
                if (feature in model.target_inputs) == (name == TARGET_VECTORS)
            }
            signatures[name] = _vectors(vectors).get_concrete_function(**read)
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    served = _Served(named_state_of(model))
    with disk_errors(folder):
        save(served, signatures, partial)
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)


def _vectors(compute: Callable[[Mapping[str, tf.Tensor]], tf.Tensor]) -> Any:
    @tf.function(autograph=False)
    def vectors(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        return {VECTOR: compute(features)}

    return vectors


def save(served: tf.Module, signatures: Mapping[str, Any], folder: Path) -> None:
    """Writes a SavedModel with the description of its signature for serving.

    Args:
        signatures: concrete functions of keyword arguments, by name, with SIGNATURE among them.

    Raises:
        KfrecError: the outputs cannot be described.
    """
    # The keywords, not the names of the specifications, which TensorFlow writes in lower case.
    _, inputs = signatures[SIGNATURE].structured_input_signature
    described = Signature(tuple(sorted(inputs)), _outputs_of(signatures[SIGNATURE].structured_outputs))
    # Nobody trains a served model. Its gradients would double the time of an export.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(served, str(folder), signatures=signatures, options=options)
    write_signature(folder, described)


def _outputs_of(served: Mapping[str, tf.TensorSpec]) -> dict[str, Output]:
    """The description of the served outputs.

    Raises:
        KfrecError: the first axis of one is not the batch, or another axis has no fixed size.
    """
    outputs = {}
    for name, spec in served.items():
        if spec.shape.rank in (None, 0) or spec.shape[0] is not None or None in spec.shape[1:]:
            raise KfrecError(
                f"the served output {name} has shape {spec.shape}; the first axis must be the batch, and the size of "
                "the others fixed"
            )
        outputs[name] = Output(spec.dtype.name, tuple(spec.shape[1:]))
    return outputs
