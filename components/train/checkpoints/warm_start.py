"""Warm start: initializes a model with the weights of another one, translating ids between their vocabularies."""

from __future__ import annotations

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
from components.scoring.translation import PADDING
from components.train.checkpoints.weights import Weight, has_weights, weights_of

_ROWS = 1 << 18  # rows of a copied chunk


def fetch_earlier(uri: str, folder: Path) -> None:
    """Fetches the model at ``uri``, without its checkpoints."""
    fetch_artifact(uri, folder, lambda path: not path.startswith("checkpoint/"))


def warm_start(place: str, folder: Path, model: Model, spec: FeatureSpec) -> int:
    """Initializes ``model`` with the weights of an earlier model.

    Embedding rows move to the id of the same user, item or category in this data. Rows of ids unknown to the earlier
    model keep their initial values. Each rank reads and receives its shards of sharded tables.

    Args:
        place: folder or URI of the earlier model, for messages.
        folder: local folder of its files.
        model: receives the weights.
        spec: of the data to train on.

    Returns:
        Embedding rows copied, over all ranks.

    Raises:
        KfrecError: there is no model, its type or sizes differ, or its ids cannot be matched.
    """
    if not has_weights(folder):
        raise KfrecError(f"warm_start_path {place}: no {SAVED_MODEL} here; give the folder of a trained model")
    known = load_feature_spec(folder)
    mine = list(model.variables)
    others = weights_of(folder, [variable.name for variable in mine])
    tables = {table.variable.ref() for table in model.tables.values()}
    fits = len(others) == len(mine) and all(
        len(other.shape) == 2 if variable.ref() in tables else variable.shape == other.shape
        for variable, other in zip(mine, others, strict=True)
    )
    if not fits:
        raise KfrecError(
            f"warm_start_path {place}: its model has other layers than this one; use the same model_type and sizes, "
            "or start fresh"
        )
    carried = 0
    for variable, other in zip(mine, others, strict=True):
        if variable.ref() in tables:
            carried += _copy_rows(model, variable, other, spec, known, folder)
        else:
            variable.assign(other.read())
    return carried


def _copy_rows(
    model: Model, variable: tf.Variable, other: Weight, spec: FeatureSpec, known: FeatureSpec, folder: Path
) -> int:
    """Copies rows of ``other`` into its counterpart ``variable``, table by table; returns the number of rows."""
    tables = {table.feature or name: table for name, table in model.tables.items() if table.variable is variable}
    described = ExportedModel(folder, known, {}, tuple(tables), {}, lambda **_: {})
    lookups = translation(spec, described)
    height, width = whole_shape(variable)
    if other.shape[1] != width:
        raise KfrecError(f"{folder}: embeds to {other.shape[1]} floats, this model to {width}; use the same")
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
            held, places = part.find(table.begin + ids[matched])
            if theirs is not None:
                rows = theirs[their_begin + their_ids[matched][held], part.begin : part.end]
                variable.scatter_update(tf.IndexedSlices(rows, places))
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
