"""Warm start: initializes a model with the weights of another one, translating ids between their vocabularies."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.artifacts.remote import fetch_artifact
from components.errors import KfrecError
from components.feature_spec import FeatureSpec, load_feature_spec
from components.models import Model
from components.models.tables.placement import Part, sharding_of, whole_shape
from components.scoring import translation
from components.scoring.model import SAVED_MODEL, TABLES, ExportedModel
from components.scoring.signature import damaged
from components.scoring.translation import PADDING, require_exact_vocabularies
from components.train.export import DENSE, SPEC
from components.train.loop.state import BY_NAME, name_in, named_state_of

_VARIABLES = "variables/variables"
_DAMAGED = (ValueError, IndexError, tf.errors.OpError)  # TensorFlow raises IndexError for a truncated file
_ROWS = 1 << 18  # rows of a copied chunk


def fetch_earlier(uri: str, folder: Path) -> None:
    """Fetches the model at ``uri``, without its checkpoints."""
    fetch_artifact(uri, folder, lambda path: not path.startswith("checkpoint/"))


@dataclass(frozen=True)
class Taken:
    """The result of a warm start.

    Attributes:
        new: names of this model's weights that keep their initial values.
        unread: names of the earlier model's weights that this model has not.
    """

    weights: int
    rows: int
    new: tuple[str, ...]
    unread: tuple[str, ...]

    def line(self, location: str) -> str:
        """What was taken from ``location``, and what was not, for people."""
        line = f"starting from the weights of {location}: {self.weights} weights, with {self.rows:,} rows of embeddings"
        line += f"; new: {', '.join(self.new)}" if self.new else ""
        scopes = Counter(map(_scope, self.unread))
        unread = ", ".join(f"{scope} ({count})" if count > 1 else scope for scope, count in scopes.items())
        return line + (f"; not read: {unread}" if unread else "")


def warm_start(location: str, folder: Path, model: Model, spec: FeatureSpec, fresh: Sequence[str] = ()) -> Taken:
    """Initializes ``model`` with the weights of an earlier model that have the same names.

    Embedding rows move to the id of the same user, item or category in this data. Rows of ids unknown to the earlier
    model keep their initial values. Each rank reads and receives its shards of sharded tables.

    A weight that the earlier model has not, or has in another shape, is an error, unless its name begins with one of
    ``fresh``. So is a weight that this model has not, unless nothing of this model has its scope, the first part of its
    name, such as the generator of a pre-training, or its name begins with one of ``fresh``, as a replaced head's does.

    Args:
        location: folder or URI of the earlier model, for messages.
        fresh: prefixes of the names that may be new; see ``components.models.definition.ModelDefinition``.

    Raises:
        KfrecError: there is no model, its weights are not those of this one, or its ids cannot be matched.
    """
    if not has_weights(folder):
        raise KfrecError(f"warm_start_path {location}: no {SAVED_MODEL} here; give the folder of a trained model")
    known = load_feature_spec(folder)
    try:
        require_exact_vocabularies(spec, known)
    except KfrecError as error:
        raise KfrecError(f"warm_start_path {location}: {str(error).replace(str(folder), location)}") from None
    mine, theirs = named_state_of(model), weights_of(folder)
    tables = {table.variable.ref() for table in model.tables.values()}
    new: list[str] = []
    for name, variable in mine.items():
        problem = _difference(name, variable, theirs.get(name), variable.ref() in tables)
        if problem and not name.startswith(tuple(fresh)):
            raise KfrecError(
                f"warm_start_path {location}: {problem}; use the same model_type, sizes and columns, start fresh "
                "(warm_start=false where a retraining chooses), or list the prefix of its name in the model's fresh"
            )
        if problem:
            new.append(name)
    unread = tuple(name for name in theirs if name not in mine)
    scopes = set(map(_scope, mine))
    for name in unread:
        if _scope(name) in scopes and not name.startswith(tuple(fresh)):
            raise KfrecError(
                f"warm_start_path {location}: its model has {name}, which this one has not; use the same model_type, "
                "sizes and columns, or start fresh (warm_start=false where a retraining chooses)"
            )
    rows = 0
    for name, variable in mine.items():
        if name in new:
            continue
        if variable.ref() in tables:
            rows += _copy_rows(model, variable, theirs[name], spec, known, folder)
        else:
            variable.assign(_own(variable, theirs[name].read()))
    return Taken(len(mine) - len(new), rows, tuple(new), unread)


def _scope(name: str) -> str:
    """The first part of a name."""
    return name.partition("/")[0]


def _difference(name: str, variable: tf.Variable, other: Weight | None, is_table: bool) -> str:
    """Why a variable cannot take the earlier model's weight; empty if it can. A table's rows may differ."""
    if other is None:
        return f"its model has no {name}"
    shape = whole_shape(variable)
    same = (len(other.shape), other.shape[1:]) == (len(shape), tuple(shape[1:]))
    if same and (is_table or other.shape[:1] == tuple(shape[:1])):
        return ""
    return f"its {name} has shape {list(other.shape)}, this model's has {shape}"


def _own(variable: tf.Variable, values: np.ndarray) -> np.ndarray:
    """The part of a weight that this rank holds."""
    sharding = sharding_of(variable)
    if sharding is None:
        return values
    part = sharding.mine
    return values[part.ids(0, part.rows), part.begin : part.end]


def _copy_rows(
    model: Model, variable: tf.Variable, other: Weight, spec: FeatureSpec, known: FeatureSpec, folder: Path
) -> int:
    """Copies rows of ``other`` into its counterpart ``variable``, table by table; returns the number of rows."""
    tables = {table.feature or name: table for name, table in model.tables.items() if table.variable is variable}
    described = ExportedModel(folder, known, {}, tuple(tables), {}, lambda **_: {})
    lookups = translation(spec, described)
    height, width = whole_shape(variable)
    sharding = sharding_of(variable)
    part = sharding.mine if sharding is not None else Part(0, 1, height, 0, width)
    theirs = other.read() if part.size else None
    their_begin = carried = 0
    for name, table in tables.items():
        their_rows = (known.features[name].cardinality or 0) + 1
        for begin in range(0, table.rows, _ROWS):
            ids = np.arange(begin, min(begin + _ROWS, table.rows))
            their_ids = lookups[name][ids] if name in lookups else ids
            matched = _has_counterpart(name, ids, their_ids, spec, known) & (their_ids < their_rows)
            held, positions = part.find(table.begin + ids[matched])
            if theirs is not None:
                rows = theirs[their_begin + their_ids[matched][held], part.begin : part.end]
                variable.scatter_update(tf.IndexedSlices(rows, positions))
            carried += int(matched.sum())
        their_begin += their_rows
    return carried


def _has_counterpart(
    name: str, ids: np.ndarray, their_ids: np.ndarray, spec: FeatureSpec, known: FeatureSpec
) -> np.ndarray:
    """Mask of the ids with a counterpart: reserved ids, and values in the other model's vocabulary."""
    ours, theirs = spec.vocabulary_of(name), known.vocabulary_of(name)
    if ours is None or theirs is None:
        return np.ones(len(ids), bool)
    return np.isin(ids, [PADDING, ours.unknown]) | (their_ids != theirs.unknown)


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
