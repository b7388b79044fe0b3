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
from components.scoring.model import SAVED_MODEL, ExportedModel, load_saved_model
from components.scoring.translation import PADDING
from components.storage import is_uri


def warm_start(place: str, scratch: Path, model: Model, spec: FeatureSpec) -> int:
    """Gives ``model`` the weights of the model at ``place``.

    A row of an embedding table goes to the id that the same user, item or category has in this data; rows of ids that
    the other model did not know stay as they were drawn. Of a divided table this rank's part receives its rows.

    Args:
        place: folder or URI of a model that the train step or the registry holds.
        scratch: where a URI's files go.
        model: receives them.
        spec: of the data to train on.

    Returns:
        Rows of the embedding tables that were carried over, on all ranks.

    Raises:
        KfrecError: there is no model, it is of another kind or size, or its ids cannot be matched.
    """
    folder = Path(place)
    if is_uri(place):
        folder = scratch
        fetch_artifact(place, folder, lambda path: not path.startswith("checkpoint/"))
    if not (folder / SAVED_MODEL).is_dir():
        raise KfrecError(f"warm_start_path {place}: no {SAVED_MODEL} here; give the folder of a trained model")
    known = load_feature_spec(folder)
    others = load_saved_model(folder / SAVED_MODEL).weights
    mine = list(model.variables)
    tables = {table.variable.ref() for table in model.tables.values()}
    fits = len(others) == len(mine) and all(
        variable.ref() in tables or variable.shape == other.shape for variable, other in zip(mine, others, strict=True)
    )
    if not fits:
        raise KfrecError(
            f"warm_start_path {place}: its model has other layers than this one; use the same model_type and sizes, "
            "or start fresh"
        )
    carried = 0
    for variable, other in zip(mine, others, strict=True):
        if variable.ref() in tables:
            carried += _carry_over(model, variable, other.numpy(), spec, known, folder)
        else:
            variable.assign(other)
    return carried


def _carry_over(
    model: Model, variable: tf.Variable, theirs: np.ndarray, spec: FeatureSpec, known: FeatureSpec, folder: Path
) -> int:
    """Fills a variable with rows of its counterpart ``theirs``, table by table; returns how many."""
    tables = {table.feature or name: table for name, table in model.tables.items() if table.variable is variable}
    described = ExportedModel(folder, known, {}, tuple(tables), "", lambda **_: {})
    lookups = translation(spec, described)
    ours = variable.numpy()
    height, width = whole_shape(variable)
    if theirs.shape[1] != width:
        raise KfrecError(f"{folder}: embeds to {theirs.shape[1]} floats, this model to {width}; use the same")
    sharding = sharding_of(variable)
    part = sharding.mine if sharding is not None else Part(0, 1, height, 0, width)
    their_begin = carried = 0
    for name, table in tables.items():
        their_rows = (known.features[name].cardinality or 0) + 1
        ids = np.arange(table.rows)
        their_ids = lookups[name][ids] if name in lookups else ids
        matched = _has_counterpart(name, ids, their_ids, spec, known) & (their_ids < their_rows)
        held, places = part.find(table.begin + ids[matched])
        ours[places] = theirs[their_begin + their_ids[matched][held], part.begin : part.end]
        carried += int(matched.sum())
        their_begin += their_rows
    variable.assign(ours)
    return carried


def _has_counterpart(
    name: str, ids: np.ndarray, their_ids: np.ndarray, spec: FeatureSpec, known: FeatureSpec
) -> np.ndarray:
    """Which ids stand for the same in both: reserved ids, and every value that the other model knew."""
    ours, theirs = spec.vocabulary_of(name), known.vocabulary_of(name)
    if ours is None or theirs is None:
        return np.ones(len(ids), bool)
    return np.isin(ids, [PADDING, ours.unknown]) | (their_ids != theirs.unknown)
