"""Translates the ids of one data set to another's, so that a model can be scored on data it was not trained on.

Preprocessing may renumber ids; the string of an id (a user's or item's name) is stable, and the vocabulary files of
both sides contain it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.errors import KfrecError
from components.feature_spec import Feature, FeatureSpec
from components.scoring.model import ExportedModel

PADDING = 0
_ROLES = ("_trgt", "_pos", "_neg")


class NotComparable(KfrecError):
    """A model that cannot be scored on a data set, and why."""


def translation(data: FeatureSpec, model: ExportedModel) -> dict[str, np.ndarray]:
    """Arrays that map the data's ids to the model's: feature name to int32 [largest id + 1].

    An id is translated through its string; a string that the model has never seen becomes the id of unknown values
    (:meth:`components.feature_spec.FeatureSpec.reserved_ids`), and 0 (padding) stays 0. Features with equal
    vocabularies on both sides have no array; nor do features without a vocabulary on either side and with equal
    cardinalities.

    Raises:
        NotComparable: the model reads a feature that the data lacks or has in another shape, or whose ids cannot be
            matched.
    """
    pairs = {name: _pair(name, data, model) for name in model.inputs}
    by_vocabulary: dict[str, np.ndarray | None] = {}
    for name, (feature, known) in pairs.items():
        vocabulary = vocabulary_of(name)
        categorical = known.cardinality is not None or feature.cardinality is not None
        if categorical and vocabulary not in by_vocabulary:
            by_vocabulary[vocabulary] = _lookup(vocabulary, feature, known, data, model)
    found = {name: by_vocabulary.get(vocabulary_of(name)) for name in model.inputs}
    return {name: lookup for name, lookup in found.items() if lookup is not None}


def _pair(name: str, data: FeatureSpec, model: ExportedModel) -> tuple[Feature, Feature]:
    """A feature that the model reads, as the data and as the model describe it."""
    feature, known = data.features.get(name), model.spec.features.get(name)
    if feature is None or known is None:
        raise NotComparable(f"the model in {model.folder} reads {name}, which the data in {data.folder} lacks")
    if feature.length != known.length:
        raise NotComparable(
            f"the model in {model.folder} reads {known.length or 1} values of {name}, "
            f"the data in {data.folder} has {feature.length or 1}"
        )
    return feature, known


def vocabulary_of(feature: str) -> str:
    """The vocabulary that a feature shares with the other roles of the same column: item_trgt and item_pos to item."""
    for role in _ROLES:
        if feature.endswith(role):
            return feature.removesuffix(role)
    return feature


def _lookup(
    vocabulary: str, feature: Feature, known: Feature, data: FeatureSpec, model: ExportedModel
) -> np.ndarray | None:
    ours, theirs = _file(data, vocabulary), _file(model.spec, vocabulary)
    if ours is None and theirs is None:
        if feature.cardinality != known.cardinality:
            raise NotComparable(
                f"{vocabulary} has {feature.cardinality} ids in {data.folder} and {known.cardinality} in "
                f"{model.folder}, and neither has a vocabulary to match them by"
            )
        return None
    if ours is None or theirs is None:
        without = data.folder if ours is None else model.folder
        raise NotComparable(f"{without} has no vocabulary of {vocabulary} to match its ids by")
    our_ids, our_values = _read(ours)
    their_ids, their_values = _read(theirs)
    if np.array_equal(our_ids, their_ids) and our_values.equals(their_values):
        return None
    found = pc.index_in(our_values, value_set=their_values, skip_nulls=True)
    seen = pc.is_valid(found).to_numpy(zero_copy_only=False)
    largest = max(feature.cardinality or 0, int(our_ids.max(initial=0)))
    lookup = np.full(largest + 1, data.reserved_ids(feature.name).unknown, np.int32)
    lookup[our_ids[seen]] = their_ids[pc.drop_null(found).to_numpy()]
    lookup[PADDING] = PADDING
    return lookup


def _file(spec: FeatureSpec, vocabulary: str) -> Path | None:
    listed = (spec.metadata.get("vocabulary") or {}).get(vocabulary)
    if not listed:
        return None
    require_listed(spec.folder, [listed])
    return spec.folder / listed


def _read(path: Path) -> tuple[np.ndarray, pa.Array]:
    try:
        table = pq.read_table(path, columns=["id", "value"])
    except FileNotFoundError:
        raise NotComparable(f"{path}: missing, though feature_spec.yaml names it; ids cannot be matched") from None
    except (pa.ArrowException, KeyError) as error:
        raise NotComparable(
            f"{path}: not a vocabulary with columns id and value ({str(error).splitlines()[0]})"
        ) from None
    return table["id"].to_numpy(), table["value"].cast(pa.large_string()).combine_chunks()
