"""The positional layout of the public examples as a feature specification.

Columns are the label, the user features, the features of the target item, one list per feature for the positive
history, and one for the negative history. metadata.json names the user features, then the item features, and their
cardinalities, in the order of the columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.feature_spec.spec import BOOL, COLUMNS, FLOAT, LARGEST_ID, TRAIN, Channel, Feature, FeatureSpec, is_id
from components.feature_spec.vocabulary import (
    NEGATIVE_SUFFIX,
    POSITIVE_SUFFIX,
    TARGET_SUFFIX,
    VOCABULARY,
    Vocabulary,
    positional_vocabulary,
    vocabulary_file,
)

METADATA = "metadata.json"
_MEASURED = 0  # the length of a list
_SUFFIXES = {
    Channel.TARGET: TARGET_SUFFIX,
    Channel.POSITIVE: POSITIVE_SUFFIX,
    Channel.NEGATIVE: NEGATIVE_SUFFIX,
}


def positional_spec(
    cardinalities: Sequence[tuple[str, int]],
    number_of_user_features: int,
    columns: Sequence[str],
    folder: Path,
    metadata: Mapping[str, Any],
) -> FeatureSpec:
    """The specification of samples in parquet.

    Args:
        cardinalities: by name, of the user features, then of the item features.
        columns: names in the files, in the order of the layout.
        folder: of the samples; each vocabulary/<name>.parquet in it is that of the user or item feature ``name``.

    Raises:
        KfrecError: another number of columns, or two features of one name.
    """
    users, items = cardinalities[:number_of_user_features], cardinalities[number_of_user_features:]
    channels = {
        Channel.LABEL: ["label"],
        Channel.USER: [name for name, _ in users],
        **{channel: [f"{name}{suffix}" for name, _ in items] for channel, suffix in _SUFFIXES.items()},
    }
    names = [name for listed in channels.values() for name in listed]
    for name in names:
        if names.count(name) > 1:
            raise KfrecError(f"{folder / METADATA}: two features would be called {name} in the records; rename one")
    if len(columns) != len(names):
        counts = ", ".join(f"{len(listed)} {channel}" for channel, listed in channels.items())
        raise KfrecError(
            f"{folder / TRAIN}: has {len(columns)} columns, but {METADATA} and number_of_user_features="
            f"{number_of_user_features} make {len(names)} ({counts}); correct one of them"
        )
    limits = [None, *(size for _, size in users), *(size for _ in _SUFFIXES for _, size in items)]
    features = {
        name: Feature(
            name,
            BOOL if name == "label" else "int64",
            limit,
            _MEASURED if name in (*channels[Channel.POSITIVE], *channels[Channel.NEGATIVE]) else None,
        )
        for name, limit in zip(names, limits, strict=True)
    }
    files = sorted(f"{VOCABULARY}/{path.name}" for path in (folder / VOCABULARY).glob("*.parquet"))
    vocabularies = [positional_vocabulary(Path(file).stem, file, names) for file in files]
    differing = {name: column for name, column in zip(names, columns, strict=True) if name != column}
    noted: dict[str, Any] = {COLUMNS: differing} if differing else {}
    if described := {each.name: each.to_dict() for each in vocabularies if each.features}:
        noted[VOCABULARY] = described
    kept = {channel: tuple(listed) for channel, listed in channels.items() if listed}
    return FeatureSpec(features, {}, kept, {**noted, **metadata}, folder)


def with_days(spec: FeatureSpec, name: str) -> FeatureSpec:
    """A specification of ``positional_spec`` with the list of days, the column ``name``."""
    return replace(
        spec,
        features={**spec.features, name: Feature(name, "int32", None, _MEASURED)},
        channels={**spec.channels, Channel.DAYS: (name,)},
    )


def with_weights(spec: FeatureSpec, name: str, is_list: bool) -> FeatureSpec:
    """A specification of ``positional_spec`` with the weights of targets, the column ``name``."""
    return replace(
        spec,
        features={**spec.features, name: Feature(name, FLOAT, None, _MEASURED if is_list else None)},
        channels={**spec.channels, Channel.WEIGHT: (name,)},
    )


def with_kind(spec: FeatureSpec, name: str, kinds: int) -> FeatureSpec:
    """A specification of ``positional_spec`` with the kind of the target's event, column and vocabulary ``name``."""
    vocabulary = Vocabulary(name, vocabulary_file(name), 0, (name,))
    vocabularies = {**spec.metadata.get(VOCABULARY, {}), name: vocabulary.to_dict()}
    return replace(
        spec,
        features={**spec.features, name: Feature(name, "int8", kinds)},
        channels={**spec.channels, Channel.KIND: (name,)},
        metadata={**spec.metadata, VOCABULARY: vocabularies},
    )


def read_positional(folder: Path, number_of_user_features: int) -> FeatureSpec:
    """The specification of a folder that metadata.json describes.

    Raises:
        KfrecError: metadata.json is missing or malformed, leaves no item features, or does not fit the columns.
    """
    path = folder / METADATA
    try:
        body = json.loads(path.read_text())
        cardinalities = [(str(entry["name"]), entry["value"]) for entry in body["cardinalities"]]
    except FileNotFoundError:
        raise KfrecError(f"{path}: missing; it lists the features and their cardinalities") from None
    except (ValueError, KeyError, TypeError):
        raise KfrecError(
            f'{path}: expected {{"cardinalities": [{{"name": "uid", "value": 105925}}, ...]}}; correct the file'
        ) from None
    for name, value in cardinalities:
        if not is_id(value):
            raise KfrecError(
                f"{path}: feature {name} has cardinality {value!r}; give its largest id, a whole number below "
                f"{LARGEST_ID}, since ids are int32"
            )
    if len(cardinalities) <= number_of_user_features:
        raise KfrecError(
            f"{path}: {len(cardinalities)} cardinalities leave no item features after "
            f"number_of_user_features={number_of_user_features}; add them, or lower the parameter"
        )
    encoding = body.get("encoding")
    metadata = {"encoding": encoding} if isinstance(encoding, dict) else {}
    return positional_spec(cardinalities, number_of_user_features, _columns(folder), folder, metadata)


def _columns(folder: Path) -> list[str]:
    parts = sorted((folder / TRAIN).glob("*.parquet"))
    if not parts:
        raise KfrecError(f"{folder / TRAIN}: no *.parquet files; put the {TRAIN} samples there")
    try:
        return list(pq.read_schema(parts[0]).names)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise KfrecError(f"{parts[0]}: cannot be read as parquet ({reason}); write it again") from None
