"""The schema of samples in parquet, from their feature_spec.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import KfrecError
from components.feature_spec import Channel, Feature, Vocabulary, load_feature_spec
from components.feature_spec.positional import METADATA
from components.feature_spec.spec import BOOL, COLUMNS, FILENAME, FLOAT, TEST, TRAIN, VALIDATION
from components.feature_spec.vocabulary import VOCABULARY


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        cardinality: largest id, 1 for the dtype bool; None accepts any integer or float.
        is_list: whether it holds lists, padded to the longest of the group.
        group: lists of one group are equally long in each row, such as those of a history.
        length: declared length of its lists; None measures it.
        zero_is_unknown: whether its vocabulary gives unknown values the id 0.
    """

    index: int
    feature: str
    name: str
    channel: str
    cardinality: int | None
    is_list: bool = False
    group: str = ""
    dtype: str = "int64"
    length: int | None = None
    zero_is_unknown: bool = False

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


def read_columns(folder: Path) -> tuple[Column, ...]:
    """The columns that feature_spec.yaml describes: each feature, in the first channel that names it.

    Raises:
        KfrecError: the file is missing or malformed.
    """
    if not (folder / FILENAME).is_file():
        remedy = f"python -m components.feature_spec {folder} writes it from {METADATA}"
        raise KfrecError(
            f"{folder / FILENAME}: missing; it describes the columns"
            + (f"; {remedy}" if (folder / METADATA).is_file() else "")
        )
    spec = load_feature_spec(folder)
    columns = []
    for index, feature in enumerate(spec.features.values()):
        channel = next((name for name, listed in spec.channels.items() if feature.name in listed), "")
        limit = 1 if feature.is_bool else feature.cardinality
        # Only histories are read side by side, so lists of other channels may differ in length.
        side_by_side = channel in (Channel.POSITIVE, Channel.NEGATIVE)
        vocabulary = spec.vocabulary_of(feature.name)
        columns.append(
            Column(
                index,
                feature.name,
                spec.column(feature.name),
                channel,
                limit,
                feature.length is not None,
                channel if side_by_side else feature.name,
                feature.dtype,
                feature.length or None,
                vocabulary is not None and not vocabulary.unknown,
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


def read_vocabularies(folder: Path, files: Sequence[str]) -> tuple[Vocabulary, ...]:
    """The vocabularies of a parquet folder, copied to records and models.

    Args:
        folder: with feature_spec.yaml, which describes them.
        files: files in vocabulary/, relative to ``folder``.

    Raises:
        KfrecError: a file that is described is missing.
    """
    spec = load_feature_spec(folder)
    for vocabulary in spec.vocabularies:
        if vocabulary.file not in files:
            raise KfrecError(
                f"{folder / vocabulary.file}: missing or not listed in the manifest, though {FILENAME} describes it"
            )
    return spec.vocabularies


def read_metadata(folder: Path) -> Mapping[str, Any]:
    """The metadata of the samples that the records keep: all but those of splits, columns and vocabularies."""
    noted = load_feature_spec(folder).metadata
    left_out = (TRAIN, TEST, VALIDATION, COLUMNS, VOCABULARY)
    return {name: value for name, value in noted.items() if name not in left_out}
