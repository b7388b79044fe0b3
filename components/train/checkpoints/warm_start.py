"""Starting a training from another model's weights, whose ids need not be this data's ids."""

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

_ROWS = 1 << 18  # rows that are carried over at a time


def fetch_earlier(uri: str, folder: Path) -> None:
    """Fetches the model at ``uri``, without its checkpoints."""
    fetch_artifact(uri, folder, lambda path: not path.startswith("checkpoint/"))


def warm_start(place: str, folder: Path, model: Model, spec: FeatureSpec) -> int:
    """Gives ``model`` the weights of an earlier model.

    A row of an embedding table goes to the id that the same user, item or category has in this data; rows of ids that
    the other model did not know stay as they were drawn. Of a divided table this rank reads and receives its part.

    Args:
        place: folder or URI of a model that the train step or the registry holds, for messages.
        folder: where its files are.
        model: receives the weights.
        spec: of the data to train on.

    Returns:
        Rows of the embedding tables that were carried over, on all ranks.

    Raises:
        KfrecError: there is no model, it is of another kind or size, or its ids cannot be matched.
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
            carried += _carry_over(model, variable, other, spec, known, folder)
        else:
            variable.assign(other.read())
    return carried


def _carry_over(
    model: Model, variable: tf.Variable, other: Weight, spec: FeatureSpec, known: FeatureSpec, folder: Path
) -> int:
    """Fills a variable with rows of its counterpart ``other``, table by table; returns how many there are."""
    tables = {table.feature or name: table for name, table in model.tables.items() if table.variable is variable}
    described = ExportedModel(folder, known, {}, tuple(tables), "", lambda **_: {})
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
    """Which ids stand for the same in both: reserved ids, and every value that the other model knew."""
    ours, theirs = spec.vocabulary_of(name), known.vocabulary_of(name)
    if ours is None or theirs is None:
        return np.ones(len(ids), bool)
    return np.isin(ids, [PADDING, ours.unknown]) | (their_ids != theirs.unknown)
