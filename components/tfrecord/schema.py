"""What the columns of a parquet data set mean: by position, as in the public bring-your-own layout.

label, the user features, the features of the target item, one list a feature for the positive history, and one for the
negative history. metadata.json names the user and item features and their cardinalities, in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import KfrecError
from components.feature_spec import Channel, Feature
from components.feature_spec.spec import LARGEST_ID, is_id

METADATA = "metadata.json"
_BOOL_OR_NOT = 1


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        index: position in the parquet files.
        feature: name in the records.
        channel: what it is used for.
        cardinality: largest id; 1 for the label.
    """

    index: int
    feature: str
    channel: str
    cardinality: int

    @property
    def is_list(self) -> bool:
        return self.channel in (Channel.POSITIVE, Channel.NEGATIVE)

    def to_feature(self, lengths: Mapping[str, int]) -> Feature:
        """Its entry in the feature specification, given the length of each history channel."""
        if self.channel == Channel.LABEL:
            return Feature(self.feature, "bool")
        return Feature(self.feature, "int64", self.cardinality, lengths.get(self.channel))


def read_columns(folder: Path, number_of_user_features: int) -> tuple[Column, ...]:
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
        *((f"{name}_trgt", Channel.TARGET, value) for name, value in items),
        *((f"{name}_pos", Channel.POSITIVE, value) for name, value in items),
        *((f"{name}_neg", Channel.NEGATIVE, value) for name, value in items),
    ]
    features = [name for name, _, _ in named]
    for name in features:
        if features.count(name) > 1:
            raise KfrecError(f"{path}: two features would be called {name} in the records; rename one")
    return tuple(Column(index, name, channel, value) for index, (name, channel, value) in enumerate(named))


def read_encoding(folder: Path) -> Mapping[str, Any]:
    """What preprocessing noted about the vocabulary in metadata.json; empty in data that was made elsewhere."""
    noted = json.loads((folder / METADATA).read_text()).get("encoding")
    return noted if isinstance(noted, dict) else {}
