"""Collects sharded tables on the first rank."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.models import Model
from components.models.names import name_of
from components.models.tables.placement import Sharding, sharding_of, whole_shape
from components.train.loop.ranks import Ranks
from components.train.loop.state import named_state_of

# Rows of a chunk that the first rank receives from each rank.
_ROWS = 1 << 16
SPEC, DENSE = "tables.json", "dense.npz"


def sharded_bytes(model: Model) -> int:
    """Total bytes of the sharded tables, over all ranks."""
    sharded = [variable for variable in model.variables if sharding_of(variable) is not None]
    return sum(4 * int(np.prod(whole_shape(variable), dtype=np.int64)) for variable in sharded)


def copy_gathered(trained: Model, model: Model | None, ranks: Ranks) -> None:
    """Copies the weights of a model with sharded tables to one with whole tables; a collective operation.

    Args:
        trained: on every rank.
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
        model: on every rank.
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
