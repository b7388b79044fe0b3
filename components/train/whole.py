"""Whole tables on the first rank, from the parts of all ranks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.models import Model
from components.models.tables.placement import Sharding, sharding_of, whole_shape
from components.train.checkpoints.state import state_of
from components.train.loop.ranks import Ranks

# The first rank receives so many rows of each rank at a time.
_ROWS = 1 << 16
SPEC, DENSE = "tables.json", "dense.npz"


def divided_bytes(model: Model) -> int:
    """Bytes of the whole tables that are divided among ranks."""
    divided = [variable for variable in model.variables if sharding_of(variable) is not None]
    return sum(4 * int(np.prod(whole_shape(variable), dtype=np.int64)) for variable in divided)


def copy_whole(trained: Model, model: Model | None, ranks: Ranks) -> None:
    """Gives a model of whole tables the weights of one whose tables may be divided.

    Args:
        trained: on every rank.
        model: receives them; on the first rank alone.
        ranks: of the training, of which every one takes part.
    """
    receivers = state_of(model) if model is not None else [None] * len(state_of(trained))
    for variable, receiver in zip(state_of(trained), receivers, strict=True):
        sharding = sharding_of(variable)
        if sharding is not None:
            values = np.empty(sharding.shape, np.float32) if receiver is not None else None
            _collect(variable, sharding, values, ranks)
            if receiver is not None:
                receiver.assign(values)
        elif receiver is not None:
            receiver.assign(variable)


def write_tables(model: Model, folder: Path, ranks: Ranks) -> None:
    """Writes the model on the first rank, a table at a time, so that no rank has to hold all of them.

    Args:
        model: on every rank.
        folder: is replaced. It receives a NumPy file for each divided table, float32 ``[rows, width]``; the other
            weights as ``dense.npz``, by name; and ``tables.json``, which names each table's file and shape, and the
            table and rows of each feature's ids.
        ranks: of the training, of which every one takes part.
    """
    partial, is_first = folder.with_name(f".{folder.name}.partial"), ranks.rank == 0
    if is_first:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    tables, dense = {}, {}
    for number, variable in enumerate(model.variables):
        sharding = sharding_of(variable)
        if sharding is None:
            dense[variable.name] = variable
            continue
        file = f"table-{number}.npy"
        tables[variable.name] = {"file": file, "rows": sharding.shape[0], "width": sharding.shape[1]}
        values = None
        if is_first:
            values = np.lib.format.open_memmap(partial / file, "w+", np.float32, sharding.shape)
        _collect(variable, sharding, values, ranks)
        if values is not None:
            values.flush()
    if not is_first:
        return
    features = {
        feature: {"table": table.variable.name, "first_row": table.begin, "rows": table.rows}
        for feature, table in model.tables.items()
    }
    np.savez(partial / DENSE, **{name: variable.numpy() for name, variable in dense.items()})
    (partial / SPEC).write_text(json.dumps({"tables": tables, "features": features}, indent=2) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)


def _collect(variable: tf.Variable, sharding: Sharding, values: np.ndarray | None, ranks: Ranks) -> None:
    """Fills ``values``, on the first rank, with a whole table."""
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
