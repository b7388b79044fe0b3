"""The schema of a parquet data set: by column name, from its feature_spec.yaml, or by position.

The positional layout is the public bring-your-own layout: label, the user features, the features of the target item,
one list per feature for the positive history, and one for the negative history. metadata.json names the user and item
features and their cardinalities, in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import KfrecError
from components.feature_spec import Channel, Feature, Vocabulary, load_feature_spec
from components.feature_spec.spec import BOOL, FILENAME, FLOAT, LARGEST_ID, TEST, TRAIN, VALIDATION, is_id
from components.feature_spec.vocabulary import (
    NEGATIVE_SUFFIX,
    POSITIVE_SUFFIX,
    TARGET_SUFFIX,
    VOCABULARY,
    positional_vocabulary,
)

METADATA = "metadata.json"
_BOOL_OR_NOT = 1


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        index: column index.
        feature: name in the records, and in the file unless the layout is positional.
        channel: model channel.
        cardinality: largest id, 1 for the dtype bool; None accepts any integer or float.
        is_list: whether it holds lists, padded to the longest of the group.
        group: lists of one group are equally long in each row; the channel, if the layout is positional.
        dtype: dtype of the feature in the records.
        length: declared length of its lists; None measures it.
        zero_is_unknown: whether its vocabulary gives unknown values the id 0.
        described_in: the file that describes it.
    """

    index: int
    feature: str
    channel: str
    cardinality: int | None
    is_list: bool = False
    group: str = ""
    dtype: str = "int64"
    length: int | None = None
    zero_is_unknown: bool = False
    described_in: str = METADATA

    @property
    def is_float(self) -> bool:
        return self.dtype == FLOAT

    @property
    def is_bool(self) -> bool:
        return self.dtype == BOOL

    @property
    def has_zeros(self) -> bool:
        """Whether 0 is valid: padding in lists, an unknown value, a missing or rare one in a table's columns.

        Users and target items are never missing.
        """
        is_named = self.cardinality is not None and self.channel in (Channel.USER, Channel.TARGET)
        return self.is_list or self.zero_is_unknown or not is_named

    def to_feature(self, lengths: Mapping[str, int]) -> Feature:
        """Its entry in the feature specification, given the length of each group of lists."""
        cardinality = None if self.is_bool else self.cardinality
        return Feature(self.feature, self.dtype, cardinality, lengths[self.group] if self.is_list else None)


def read_columns(folder: Path, number_of_user_features: int) -> tuple[Column, ...]:
    """The columns that feature_spec.yaml describes, or else metadata.json.

    Raises:
        KfrecError: neither exists, or one is malformed.
    """
    return _by_name(folder) if (folder / FILENAME).is_file() else _by_position(folder, number_of_user_features)


def is_by_name(folder: Path) -> bool:
    """Whether columns are found by their names."""
    return (folder / FILENAME).is_file()


def _by_name(folder: Path) -> tuple[Column, ...]:
    """Each feature of the specification is a column of its name, in the first channel that names it."""
    spec = load_feature_spec(folder)
    columns = []
    for index, feature in enumerate(spec.features.values()):
        channel = next((name for name, listed in spec.channels.items() if feature.name in listed), "")
        limit = 1 if feature.is_bool else feature.cardinality
        # Only histories are read side by side, so lists of other channels may differ in length.
        side_by_side = channel in (Channel.POSITIVE, Channel.NEGATIVE)
        group = channel if side_by_side else feature.name
        is_list = feature.length is not None
        vocabulary = spec.vocabulary_of(feature.name)
        columns.append(
            Column(
                index,
                feature.name,
                channel,
                limit,
                is_list,
                group,
                feature.dtype,
                feature.length,
                vocabulary is not None and not vocabulary.unknown,
                FILENAME,
            )
        )
    declared_lengths(folder / FILENAME, columns)
    return tuple(columns)


def declared_lengths(path: Path, columns: Sequence[Column]) -> dict[str, int]:
    """The declared length of each group of lists; groups without one are left out.

    Raises:
        KfrecError: two features of a group declare different lengths; the message names ``path``.
    """
    first_columns: dict[str, Column] = {}
    for column in columns:
        if column.length is not None:
            first = first_columns.setdefault(column.group, column)
            if first.length != column.length:
                raise KfrecError(
                    f"{path}: {column.feature} has dimensions [{column.length}], but {first.feature} of the channel "
                    f"{column.group}, too, has [{first.length}]; give them one length"
                )
    return {group: column.length for group, column in first_columns.items() if column.length is not None}


def _by_position(folder: Path, number_of_user_features: int) -> tuple[Column, ...]:
    """The columns that metadata.json describes.

    Raises:
        KfrecError: metadata.json is missing or malformed, or leaves no item features.
    """
    path = folder / METADATA
    try:
        entries = json.loads(path.read_text())["cardinalities"]
        cardinalities = [(str(entry["name"]), entry["value"]) for entry in entries]
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
    users, items = cardinalities[:number_of_user_features], cardinalities[number_of_user_features:]
    if not items:
        raise KfrecError(
            f"{path}: {len(cardinalities)} cardinalities leave no item features after "
            f"number_of_user_features={number_of_user_features}; add them, or lower the parameter"
        )
    named = [
        ("label", Channel.LABEL, _BOOL_OR_NOT),
        *((name, Channel.USER, value) for name, value in users),
        *((f"{name}{TARGET_SUFFIX}", Channel.TARGET, value) for name, value in items),
        *((f"{name}{POSITIVE_SUFFIX}", Channel.POSITIVE, value) for name, value in items),
        *((f"{name}{NEGATIVE_SUFFIX}", Channel.NEGATIVE, value) for name, value in items),
    ]
    features = [name for name, _, _ in named]
    for name in features:
        if features.count(name) > 1:
            raise KfrecError(f"{path}: two features would be called {name} in the records; rename one")
    histories = (Channel.POSITIVE, Channel.NEGATIVE)
    return tuple(
        Column(
            index,
            name,
            channel,
            value,
            is_list=channel in histories,
            group=channel if channel in histories else "",
            dtype=BOOL if channel == Channel.LABEL else "int64",
        )
        for index, (name, channel, value) in enumerate(named)
    )


def read_vocabularies(folder: Path, files: Sequence[str], features: Collection[str]) -> tuple[Vocabulary, ...]:
    """The vocabularies of a parquet folder, copied to records and models.

    Args:
        folder: with feature_spec.yaml, which describes them, or with the positional layout, where a file is named after
            its user or item feature.
        files: files in vocabulary/, relative to ``folder``.
        features: feature names in the records.

    Raises:
        KfrecError: a file that is described is missing.
    """
    if not is_by_name(folder):
        named = (positional_vocabulary(Path(file).stem, file, features) for file in files if file.endswith(".parquet"))
        return tuple(vocabulary for vocabulary in named if vocabulary.features)
    spec = load_feature_spec(folder)
    for vocabulary in spec.vocabularies:
        if vocabulary.file not in files:
            raise KfrecError(
                f"{folder / vocabulary.file}: missing or not listed in the manifest, though {FILENAME} describes it"
            )
    return spec.vocabularies


def read_metadata(folder: Path) -> Mapping[str, Any]:
    """The metadata of the samples that the records keep: all but those of splits and vocabularies."""
    if is_by_name(folder):
        noted = load_feature_spec(folder).metadata
        return {name: value for name, value in noted.items() if name not in (TRAIN, TEST, VALIDATION, VOCABULARY)}
    encoding = json.loads((folder / METADATA).read_text()).get("encoding")
    return {"encoding": encoding} if isinstance(encoding, dict) else {}
