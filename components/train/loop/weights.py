"""The weights in a model's folder by name, loaded one at a time."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.errors import KfrecError
from components.scoring.model import SAVED_MODEL, TABLES
from components.scoring.signature import damaged
from components.train.gather_tables import DENSE, SPEC
from components.train.loop.state import BY_NAME, name_in

_VARIABLES = "variables/variables"
_DAMAGED = (ValueError, IndexError, tf.errors.OpError)  # TensorFlow raises IndexError for a truncated file


@dataclass(frozen=True)
class Weight:
    """A weight in a file.

    Attributes:
        read: returns its values, loaded from a SavedModel or memory-mapped from a table's file.
    """

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


def has_weights(folder: Path) -> bool:
    """Whether the folder has a model, as a SavedModel or as table files."""
    return (folder / SAVED_MODEL).is_dir() or (folder / TABLES).is_dir()


def weights_of(folder: Path) -> dict[str, Weight]:
    """The weights of a model by name; requires ``has_weights``.

    Raises:
        KfrecError: a file is damaged, or an earlier kfrec exported the model.
    """
    saved = folder / SAVED_MODEL
    return _of_saved_model(saved) if saved.is_dir() else _of_tables(folder / TABLES)


def _of_saved_model(saved: Path) -> dict[str, Weight]:
    try:
        reader = tf.train.load_checkpoint(str(saved / _VARIABLES))
    except _DAMAGED as error:
        raise damaged(saved, error) from error
    shapes = reader.get_variable_to_shape_map()

    def read(key: str) -> np.ndarray:
        try:
            values: np.ndarray = reader.get_tensor(key)
        except _DAMAGED as error:
            raise damaged(saved, error) from error
        return values

    named = {key: name for key in shapes if (name := name_in(key, BY_NAME)) is not None}
    if not named:
        raise KfrecError(
            f"{saved}: was exported by an earlier kfrec, whose weights have no names; train once without it"
        )
    return {name: Weight(tuple(shapes[key]), partial(read, key)) for key, name in sorted(named.items())}


def _of_tables(folder: Path) -> dict[str, Weight]:
    try:
        tables = json.loads((folder / SPEC).read_text())["tables"]
        with np.load(folder / DENSE) as arrays:
            dense = {name: arrays[name] for name in arrays.files}
        weights = {name: _held(values) for name, values in dense.items()}
        weights |= {
            name: _table(folder, table["file"], (table["rows"], table["width"])) for name, table in tables.items()
        }
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise damaged(folder, error) from error
    return weights


def _held(values: np.ndarray) -> Weight:
    return Weight(values.shape, lambda: values)


def _table(folder: Path, file: str, shape: tuple[int, int]) -> Weight:
    def read() -> np.ndarray:
        try:
            values: np.ndarray = np.load(folder / file, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise damaged(folder, error) from error
        if values.shape != shape:
            raise damaged(folder, ValueError(f"{file} has shape {list(values.shape)}, not {list(shape)}"))
        return values

    return Weight(shape, read)
