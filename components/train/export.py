"""The trained model as a SavedModel that scores requests without any code of this workflow, or as files of tables.

The first rank writes either, and collects the shards of sharded tables.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components.errors import KfrecError
from components.models import Model
from components.models.model import (
    Describing,
    Explaining,
    Retrieving,
    ScoringItems,
    ScoringNew,
    SharingUser,
    outputs_of,
)
from components.models.names import name_of
from components.models.tables.placement import Sharding, sharding_of, whole_shape
from components.scoring.model import (
    COLUMN_VECTORS,
    COLUMNS,
    EXPLAIN,
    ITEM_SCORES,
    NEW_SCORES,
    SIGNATURE,
    TARGET_VECTORS,
    TARGETS,
    USER_VECTORS,
    VECTOR,
)
from components.scoring.signature import Output, Signature, write_signature
from components.tasks import TaskDefinition
from components.train.loop.ranks import Ranks
from components.train.loop.state import BY_NAME, disk_errors, named_state_of

# Rows of a chunk that the first rank receives from each rank.
_ROWS = 1 << 16
SPEC, DENSE = "tables.json", "dense.npz"


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
            signatures ``user_vectors`` and ``target_vectors``, see ``components.models.model.Retrieving``, and with
            columns of items ``column_vectors``, see ``components.models.model.Describing``. One that scores all items
            at once has the signature ``item_scores``, see ``components.models.model.ScoringItems``, and with columns of
            items ``new_scores``, see ``components.models.model.ScoringNew``.
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
        users, targets = _halves(signature, model.target_inputs)
        signatures[USER_VECTORS] = _vectors(model.user_vectors).get_concrete_function(**users)
        signatures[TARGET_VECTORS] = _vectors(model.target_vectors).get_concrete_function(**targets)
    if isinstance(model, Describing) and model.item_columns:
        of_columns = model.column_vectors
        signatures[COLUMN_VECTORS] = _vectors(lambda features: of_columns(features[COLUMNS])).get_concrete_function(
            **_columns(model.item_columns)
        )
    if isinstance(model, ScoringItems):
        users, _ = _halves(signature, model.target_inputs)
        signatures[ITEM_SCORES] = _vectors(model.item_scores).get_concrete_function(**users)
    if isinstance(model, ScoringNew) and model.item_columns:
        of_new = model.new_scores
        signatures[NEW_SCORES] = _vectors(lambda features: of_new(features, features[COLUMNS])).get_concrete_function(
            **signature, **_columns(model.item_columns)
        )
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    served = _Served(named_state_of(model))
    with disk_errors(folder):
        save(served, signatures, partial)
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)


def _halves(
    signature: Mapping[str, tf.TensorSpec], target_inputs: Sequence[str]
) -> tuple[dict[str, tf.TensorSpec], dict[str, tf.TensorSpec]]:
    """The inputs that are not the target's, and those that are."""
    targets = {name: spec for name, spec in signature.items() if name in target_inputs}
    return {name: spec for name, spec in signature.items() if name not in targets}, targets


def _columns(width: int) -> dict[str, tf.TensorSpec]:
    return {COLUMNS: tf.TensorSpec([None, width], tf.float32, name=COLUMNS)}


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


def sharded_bytes(model: Model) -> int:
    """Total bytes of the sharded tables, over all ranks."""
    sharded = [variable for variable in model.variables if sharding_of(variable) is not None]
    return sum(4 * int(np.prod(whole_shape(variable), dtype=np.int64)) for variable in sharded)


def copy_gathered(trained: Model, model: Model | None, ranks: Ranks) -> None:
    """Copies the weights of a model with sharded tables to one with whole tables; a collective operation.

    Args:
        model: receives the weights on the first rank; None on the others.
    """
    receivers = named_state_of(model) if model is not None else {}
    for name, variable in named_state_of(trained).items():
        receiver = receivers.get(name)
        sharding = sharding_of(variable)
        if sharding is not None:
            values = np.empty(sharding.shape, np.float32) if receiver is not None else None
            _collect(variable, sharding, values, ranks)
            if receiver is not None:
                receiver.assign(values)
        elif receiver is not None:
            receiver.assign(variable)


def write_tables(model: Model, folder: Path, ranks: Ranks) -> None:
    """Writes the model on the first rank, one table at a time to bound memory; a collective operation.

    Args:
        folder: is replaced. It receives a NumPy file for each sharded table, float32 ``[rows, width]``; the other
            weights as ``dense.npz``, by name; and ``tables.json``, which names each table's file and shape, and the
            table and rows of each feature's ids.
    """
    partial, is_first = folder.with_name(f".{folder.name}.partial"), ranks.rank == 0
    if is_first:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    tables, dense = {}, {}
    for number, (name, variable) in enumerate(named_state_of(model).items()):
        sharding = sharding_of(variable)
        if sharding is None:
            dense[name] = variable
            continue
        file = f"table-{number}.npy"
        tables[name] = {"file": file, "rows": sharding.shape[0], "width": sharding.shape[1]}
        values = None
        if is_first:
            values = np.lib.format.open_memmap(partial / file, "w+", np.float32, sharding.shape)
        _collect(variable, sharding, values, ranks)
        if values is not None:
            values.flush()
    if not is_first:
        return
    features = {
        feature: {"table": name_of(table.variable), "first_row": table.begin, "rows": table.rows}
        for feature, table in model.tables.items()
    }
    np.savez(partial / DENSE, **{name: variable.numpy() for name, variable in dense.items()})
    (partial / SPEC).write_text(json.dumps({"tables": tables, "features": features}, indent=2) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)


def _collect(variable: tf.Variable, sharding: Sharding, values: np.ndarray | None, ranks: Ranks) -> None:
    """Gathers a whole table into ``values`` on the first rank."""
    for begin in range(0, max(part.rows for part in sharding.parts), _ROWS):
        ends = [max(min(part.rows, begin + _ROWS), begin) for part in sharding.parts]
        mine = tf.reshape(variable[begin : ends[ranks.rank]], [-1])
        counts = tf.constant([mine.shape[0], *[0] * (ranks.size - 1)], tf.int32)
        received, _ = ranks.all_to_all(mine, counts, "parts_of_tables")
        if values is None:
            continue
        sizes = [(end - begin) * part.width for end, part in zip(ends, sharding.parts, strict=True)]
        pieces = np.split(received.numpy(), np.cumsum(sizes)[:-1])
        for end, part, piece in zip(ends, sharding.parts, pieces, strict=True):
            if piece.size:
                values[part.ids(begin, end), part.begin : part.end] = piece.reshape(-1, part.width)
