"""Columns of events, such as device and price, that models read, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from components.feature_spec.spec import Channel, Feature, FeatureSpec
from components.feature_spec.vocabulary import NVTABULAR_UNKNOWN, VOCABULARY, Vocabulary, vocabulary_file

# What the name of a column's vocabulary begins with.
PREFIX = "event_"
# The id of a missing value.
MISSING = 1


@dataclass(frozen=True)
class EventColumn:
    """A column of the events.

    Attributes:
        name: in the raw files.
        is_number: whether it holds numbers, rather than categories.
        is_known: whether it is known of the target when that is scored.
    """

    name: str
    is_number: bool = False
    is_known: bool = False

    @property
    def field(self) -> str:
        """The name of its vocabulary, of the target's feature, and of its column in tables of events."""
        return f"{PREFIX}{self.name}"

    @property
    def sequence(self) -> str:
        """The name of the history's feature."""
        return f"{self.field}_sequence"

    @property
    def in_history(self) -> str:
        """The name of the history's column in raw rows; the target's is ``name``."""
        return f"history_{self.name}"


def with_events(spec: FeatureSpec, largest: Mapping[EventColumn, int]) -> FeatureSpec:
    """A specification with columns of events.

    Args:
        largest: the largest id of each column.
    """
    known = [column for column in largest if column.is_known]
    features = {column.sequence: Feature(column.sequence, "int64", largest[column], 0) for column in largest}
    features |= {column.field: Feature(column.field, "int64", largest[column]) for column in known}
    channels = {Channel.EVENTS: tuple(column.sequence for column in largest)}
    if known:
        channels[Channel.CONTEXT] = tuple(column.field for column in known)
    vocabularies = {
        column.field: Vocabulary(
            column.field,
            vocabulary_file(column.field),
            NVTABULAR_UNKNOWN,
            (column.sequence, *([column.field] if column.is_known else [])),
            intervals=column.is_number,
        ).to_dict()
        for column in largest
    }
    return replace(
        spec,
        features={**spec.features, **features},
        channels={**spec.channels, **channels},
        metadata={**spec.metadata, VOCABULARY: {**spec.metadata.get(VOCABULARY, {}), **vocabularies}},
    )


def columns_in(spec: FeatureSpec) -> tuple[EventColumn, ...]:
    """The columns of events of a specification that ``with_events`` made."""
    sequences, known = (spec.channels.get(name, ()) for name in (Channel.EVENTS, Channel.CONTEXT))
    return tuple(
        EventColumn(each.name.removeprefix(PREFIX), each.intervals, any(name in known for name in each.features))
        for each in spec.vocabularies
        if any(name in sequences for name in each.features)
    )
