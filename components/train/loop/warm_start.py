"""Warm start: initializes a model with the weights of another one, translating ids between their vocabularies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.artifacts.remote import fetch_artifact
from components.errors import KfrecError
from components.feature_spec import FeatureSpec, load_feature_spec
from components.models import Model
from components.models.tables.placement import Part, sharding_of, whole_shape
from components.scoring import translation
from components.scoring.model import SAVED_MODEL, ExportedModel
from components.scoring.translation import PADDING, require_exact_vocabularies
from components.train.loop.state import named_state_of
from components.train.loop.weights import Weight, has_weights, weights_of

_ROWS = 1 << 18  # rows of a copied chunk


def fetch_earlier(uri: str, folder: Path) -> None:
    """Fetches the model at ``uri``, without its checkpoints."""
    fetch_artifact(uri, folder, lambda path: not path.startswith("checkpoint/"))


@dataclass(frozen=True)
class Taken:
    """The result of a warm start.

    Attributes:
        weights: number of the weights taken.
        rows: embedding rows among them, over all ranks.
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
        folder: local folder of its files.
        model: receives the weights.
        spec: of the data to train on.
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
                f"warm_start_path {location}: {problem}; use the same model_type and sizes, start fresh, or list the "
                "prefix of its name in the model's fresh"
            )
        if problem:
            new.append(name)
    unread = tuple(name for name in theirs if name not in mine)
    scopes = set(map(_scope, mine))
    for name in unread:
        if _scope(name) in scopes and not name.startswith(tuple(fresh)):
            raise KfrecError(
                f"warm_start_path {location}: its model has {name}, which this one has not; use the same model_type "
                "and sizes, or start fresh"
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
