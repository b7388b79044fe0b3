"""Translates ids between data sets, to score a model on data that it was not trained on.

Preprocessing may renumber ids; an id's string (a user's or item's name) is stable, and is in the vocabularies of both
data sets.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow.compute as pc

from components.errors import KfrecError
from components.feature_spec import Feature, FeatureSpec, Vocabulary
from components.feature_spec.values import read_values
from components.scoring.model import ExportedModel

PADDING = 0


def scoring_translation(data: FeatureSpec, model: ExportedModel) -> dict[str, np.ndarray]:
    """As ``translation``, for scoring: unlike a warm start, it requires equal lengths and equal scaling of numbers.

    Raises:
        KfrecError: also if a feature has another length, or numbers were scaled differently, in the model's training
            data.
    """
    for name in model.inputs:
        _require_equal_lengths(name, *_pair(name, data, model), data, model)
    _require_equal_statistics(data, model)
    return translation(data, model)


def translation(data: FeatureSpec, model: ExportedModel) -> dict[str, np.ndarray]:
    """Arrays that map the data's ids to the model's: feature name to int32 [largest id + 1].

    Ids are translated through their strings. Strings outside the model's vocabulary map to its unknown id; reserved
    ids, such as 0 (padding), are unchanged. Features with equal vocabularies, or with equal cardinalities and no
    vocabularies, have no array.

    Raises:
        KfrecError: a feature of the model is missing in the data, or its ids cannot be matched.
    """
    pairs = {name: _pair(name, data, model) for name in model.inputs}
    translations: dict[str, np.ndarray | None] = {}
    made: dict[tuple[Vocabulary, Vocabulary], np.ndarray | None] = {}
    for name, (feature, known) in pairs.items():
        if known.cardinality is None and feature.cardinality is None:
            continue
        ours, theirs = data.vocabulary_of(name), model.spec.vocabulary_of(name)
        if ours is None or theirs is None:
            _require_equal_ids(name, feature, known, data, model)
        elif ours.exact or theirs.exact:
            _require_same_values(ours, theirs, data, model.spec)
        elif (ours, theirs) in made:
            translations[name] = made[ours, theirs]
        else:
            translations[name] = made[ours, theirs] = _lookup(ours, theirs, feature.cardinality or 0, data, model)
    return {name: lookup for name, lookup in translations.items() if lookup is not None}


def require_exact_vocabularies(data: FeatureSpec, known: FeatureSpec) -> None:
    """Checks the exact vocabularies of features that both specifications have.

    Raises:
        KfrecError: one differs.
    """
    for ours in data.vocabularies:
        theirs = known.vocabulary_of(next(iter(ours.features), ""))
        if theirs is not None and (ours.exact or theirs.exact):
            _require_same_values(ours, theirs, data, known)


def _require_same_values(ours: Vocabulary, theirs: Vocabulary, data: FeatureSpec, known: FeatureSpec) -> None:
    our_ids, our_values = read_values(data, ours)
    their_ids, their_values = read_values(known, theirs)
    if not (np.array_equal(our_ids, their_ids) and our_values.equals(their_values)):
        raise KfrecError(
            f"{data.folder / ours.file}: is another vocabulary of {ours.name} ({len(our_ids):,}) than that of the "
            f"model in {known.folder} ({len(their_ids):,}), whose ids cannot be translated; prepare the data with the "
            "model's vocabulary (parameter workflow)"
        )


def _require_equal_statistics(data: FeatureSpec, model: ExportedModel) -> None:
    """Checks that the numbers of both were scaled and binned alike, if both sides have digests of their statistics."""
    (ours, ours_each), (theirs, theirs_each) = (_statistics(spec) for spec in (data, model.spec))
    if not ours or not theirs or ours == theirs:
        return
    common = ours_each.keys() & theirs_each.keys()
    if not common or any(ours_each[name] != theirs_each[name] for name in common):
        raise KfrecError(
            f"numbers in {data.folder} are scaled by other statistics than those that the model in {model.folder} was "
            "trained with; encode the data with that model's vocabulary (parameter workflow) to compare them"
        )


def _statistics(spec: FeatureSpec) -> tuple[str, Mapping[str, str]]:
    """The digest of the statistics of all numbers, and those of each, which an earlier kfrec did not write."""
    encoding = spec.metadata.get("encoding")
    return (
        (str(encoding.get("statistics", "")), encoding.get("columns", {})) if isinstance(encoding, dict) else ("", {})
    )


def _pair(name: str, data: FeatureSpec, model: ExportedModel) -> tuple[Feature, Feature]:
    """A feature's descriptions in the data and in the model."""
    feature, known = data.features.get(name), model.spec.features.get(name)
    if feature is None or known is None:
        raise KfrecError(f"the model in {model.folder} reads {name}, which the data in {data.folder} lacks")
    return feature, known


def _require_equal_lengths(
    name: str, feature: Feature, known: Feature, data: FeatureSpec, model: ExportedModel
) -> None:
    if feature.length != known.length:
        raise KfrecError(
            f"the model in {model.folder} reads {known.length or 1} values of {name}, "
            f"the data in {data.folder} has {feature.length or 1}"
        )


def _require_equal_ids(name: str, feature: Feature, known: Feature, data: FeatureSpec, model: ExportedModel) -> None:
    """Checks that a feature has a vocabulary on neither side, and equal cardinalities."""
    for one, other in ((data, model.spec), (model.spec, data)):
        if one.vocabulary_of(name) is not None:
            raise KfrecError(f"{other.folder} has no vocabulary of {name} to match its ids by")
    if feature.cardinality != known.cardinality:
        raise KfrecError(
            f"{name} has {feature.cardinality} ids in {data.folder} and {known.cardinality} in {model.folder}, and "
            "neither has a vocabulary to match them by"
        )


def _lookup(
    ours: Vocabulary, theirs: Vocabulary, cardinality: int, data: FeatureSpec, model: ExportedModel
) -> np.ndarray | None:
    our_ids, our_values = read_values(data, ours)
    their_ids, their_values = read_values(model.spec, theirs)
    same = np.array_equal(our_ids, their_ids) and our_values.equals(their_values)
    if same and ours.unknown == theirs.unknown:
        return None
    positions = pc.index_in(our_values, value_set=their_values, skip_nulls=True)
    seen = pc.is_valid(positions).to_numpy(zero_copy_only=False)
    largest = max(cardinality, int(our_ids.max(initial=0)))
    lookup = np.full(largest + 1, theirs.unknown, np.int32)
    lookup[our_ids[seen]] = their_ids[pc.drop_null(positions).to_numpy()]
    # Ids before the first value on both sides are reserved: padding, null, unknown.
    reserved = np.arange(min(our_ids.min(initial=largest), their_ids.min(initial=largest)))
    lookup[reserved] = np.where(reserved == ours.unknown, theirs.unknown, reserved)
    lookup[PADDING] = PADDING
    return lookup
