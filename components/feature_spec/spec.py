"""The Dataset Feature Specification of the public recommender examples, as typed data.

The file has four sections: ``feature_spec`` (features and their metadata), ``source_spec`` (files of each split),
``channel_spec`` (model channel to features) and ``metadata``, where kfrec keeps what speeds up reading:

    metadata:
      train: {rows: 163156, prebatch_size: 0, rows_per_file: [...]}
      test: {rows: 10246, prebatch_size: 0, rows_per_file: [...]}
      validation: {rows: 18120, prebatch_size: 0, rows_per_file: [...]}    only with such a split
      vocabulary: {uid: {file: vocabulary/uid.parquet, unknown: 2, features: [uid]}, ...}
      encoding: {vocabulary: kept, out_of_vocabulary_rate: 0.01, raw_rows: 198502, best: {auc: 0.8208}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from components.artifacts.folder import require_listed
from components.errors import KfrecError
from components.feature_spec.vocabulary import Vocabulary, read_vocabularies
from components.settings_file import plain_yaml

FILENAME = "feature_spec.yaml"
# Section of the metadata of samples in parquet: feature to column, if these differ.
COLUMNS = "columns"
FLOAT, BOOL = "float32", "bool"
# The splits. Data need no validation split: training then holds out a part of its samples.
TRAIN, TEST, VALIDATION = "train", "test", "validation"
# Notes about kinds of events; see ``FeatureSpec.kinds``.
_KINDS = ("target_kinds", "context_kinds")
# Notes about the split; see ``FeatureSpec.cuts``.
_CUTS = ("train_end", "test_begin")
# Feature dtypes; records store floats as float lists, and all others as int64 lists.
DTYPES = ("int64", "int32", "int16", "int8", "uint8", BOOL, FLOAT)
# Ids are int32, and a table has an extra row for padding.
LARGEST_ID = 2**31 - 1


class Channel:
    """Names of the channels that kfrec's steps, models and tasks read; any other name is between a model and its data.

    Attributes:
        LABEL: ``label``, what models learn to predict: none or several features of any dtype, no input of a model.
        GROUP: ``group``, which samples are ranked against each other, such as ads of one display; no model reads it.
        CATEGORICAL: ``categorical``, ids of a table; 0 is a missing or rare value.
        MULTIHOT: ``multihot``, lists of ids of a table; 0 is padding.
        NUMERICAL: ``numerical``, numbers of a table.
        QUANTILE: ``quantile``, quantiles of numbers among the training rows, 0 to 1, which models expand piecewise
            linearly.
        USER: ``user_features``, ids of a user; 0 does not occur.
        TARGET: ``target_item_features``, ids of the candidate; 0 does not occur.
        POSITIVE: ``positive_history``, a list of ids for each of the target's features, equally long in a sample.
        NEGATIVE: ``negative_history``, the same of sampled items, which only training reads.
        DAYS: ``days``, a list of numbers: how many of the user's days each item of the positive history is before the
            target; what pads is a day before the first item. Only training reads it.
        EVENTS: ``event_history``, lists of ids that tell more of the events of the positive history, such as a device
            or an interval of prices; one for each of its items.
        CONTEXT: ``target_event``, ids of what of these is known of the target before it is chosen.
        KIND: ``target_kind``, the id of the kind of the target's event, such as view, 0 without one; no model reads it.
        WEIGHT: ``weight``, how much the target counts in the loss, a number of at least 0; or a list of how much each
            item of the positive history counts as one, and then the target, for models that learn from each. Only
            training reads it.
    """

    LABEL = "label"
    GROUP = "group"
    CATEGORICAL = "categorical"
    MULTIHOT = "multihot"
    NUMERICAL = "numerical"
    QUANTILE = "quantile"
    USER = "user_features"
    TARGET = "target_item_features"
    POSITIVE = "positive_history"
    NEGATIVE = "negative_history"
    DAYS = "days"
    EVENTS = "event_history"
    CONTEXT = "target_event"
    KIND = "target_kind"
    WEIGHT = "weight"


@dataclass(frozen=True)
class Feature:
    """One feature of a sample.

    Attributes:
        dtype: one of DTYPES.
        cardinality: largest id (0 is padding), None where the feature is not categorical.
        length: values per sample, None for a single value; shorter lists are left-padded with 0. Samples in parquet may
            leave it to the tfrecord step, which measures the longest list: it is then 0, and ``[null]`` in the file.
    """

    name: str
    dtype: str
    cardinality: int | None = None
    length: int | None = None

    @property
    def is_float(self) -> bool:
        """Whether its values are numbers, rather than ids, counts or labels."""
        return self.dtype == FLOAT

    @property
    def is_bool(self) -> bool:
        """Whether its values are 0 or 1."""
        return self.dtype == BOOL

    def to_dict(self) -> dict[str, Any]:
        body: dict[str, Any] = {"dtype": self.dtype}
        if self.cardinality is not None:
            body["cardinality"] = self.cardinality
        if self.length is not None:
            body["dimensions"] = [self.length or None]
        return body


class ListLength(NamedTuple):
    """The list length of a channel, before there is a specification.

    Attributes:
        values: values per sample.
        parameter: name of the parameter that sets it, for messages.
    """

    values: int
    parameter: str


@dataclass(frozen=True)
class Chunk:
    """Record files that hold the same features; the order of the files is the order of the rows."""

    features: tuple[str, ...]
    files: tuple[str, ...]
    type: str = "tfrecord"


@dataclass(frozen=True)
class FeatureSpec:
    """A parsed feature_spec.yaml.

    Attributes:
        sources: split (TRAIN, TEST, VALIDATION) to its one chunk of record files, paths relative to the folder.
    """

    features: Mapping[str, Feature]
    sources: Mapping[str, Chunk]
    channels: Mapping[str, tuple[str, ...]]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()

    def channel(self, name: str) -> tuple[Feature, ...]:
        """The features of a channel, in order.

        Raises:
            KfrecError: the specification has no such channel.
        """
        if name not in self.channels:
            raise KfrecError(
                f"{self.folder / FILENAME}: channel_spec has no {name}; it has {', '.join(self.channels) or 'none'}"
            )
        return tuple(self.features[feature] for feature in self.channels[name])

    @property
    def targets(self) -> tuple[Feature, ...]:
        """What models learn to predict, the features of the channel ``label``; empty without labels."""
        return tuple(self.features[name] for name in self.channels.get(Channel.LABEL, ()))

    def files(self, split: str) -> tuple[Path, ...]:
        """Full paths of a split's record files.

        Raises:
            KfrecError: the specification has no such split.
        """
        if split not in self.sources:
            raise KfrecError(f"{self.folder / FILENAME}: source_spec has no {split} split; add one with its files")
        return tuple(self.folder / name for name in self.sources[split].files)

    def prebatch_size(self, split: str) -> int:
        """Samples in one record of a split; 0 means one plain Example a sample."""
        return self.noted_prebatch_size(split) or 0

    def noted_prebatch_size(self, split: str) -> int | None:
        """As ``prebatch_size``, but None if the specification, such as the public scripts', does not say."""
        return (self.metadata.get(split) or {}).get("prebatch_size")

    @property
    def vocabularies(self) -> tuple[Vocabulary, ...]:
        """The vocabularies of the features' ids, where known."""
        return read_vocabularies(self.folder / FILENAME, self.metadata.get("vocabulary"), self.features)

    def vocabulary_of(self, feature: str) -> Vocabulary | None:
        """The vocabulary of a feature's ids; None if unknown."""
        return next((known for known in self.vocabularies if feature in known.features), None)

    @property
    def best_metrics(self) -> dict[str, float]:
        """The best possible value of each metric on the test split, by its name, where the data's generator knows it.

        It is the section ``best`` of the metadata section ``encoding``, which preprocessing of generated data writes.
        """
        encoding = self.metadata.get("encoding")
        best = encoding.get("best") if isinstance(encoding, dict) else None
        values = best.items() if isinstance(best, dict) else ()
        return {str(name): float(value) for name, value in values if isinstance(value, (int, float))}

    @property
    def keeps_seen(self) -> bool:
        """Whether items of a history compete with the others: for ranks of targets, and in lists.

        They do where ``sampling`` of the metadata section ``encoding`` has ``seen_items: keep``; data without this
        statement leave them out.
        """
        return bool(self._sampling.get("seen_items") == "keep")

    @property
    def learns_histories(self) -> bool:
        """Whether each item of a history is one that could be a target, so that models may learn it as one.

        It is not where ``sampling`` of the metadata section ``encoding`` names other target_kinds than context_kinds.
        """
        targets, context = (set(self.kinds.get(name, ())) for name in _KINDS)
        return targets == context

    @property
    def kinds(self) -> Mapping[str, Sequence[str]]:
        """The kinds of events that are targets, ``target_kinds``, and in histories, ``context_kinds``, where not all
        are.
        """
        return {name: self._sampling[name] for name in _KINDS if name in self._sampling}

    @property
    def counts_targets(self) -> bool:
        """Whether the counts of a vocabulary of items, see ``values.read_counts``, are of events such as targets are.

        They are not with other kinds of events in histories, and not of events with weights.
        """
        return self.learns_histories and not self._sampling.get("weighted")

    @property
    def cuts(self) -> Mapping[str, int]:
        """The moments, in nanoseconds since 1970, before which events train, ``train_end``, and from which they test,
        ``test_begin``; empty without a split by time.
        """
        return {name: int(self._sampling[name]) for name in _CUTS if name in self._sampling}

    @property
    def _sampling(self) -> Mapping[str, Any]:
        encoding = self.metadata.get("encoding")
        sampling = encoding.get("sampling") if isinstance(encoding, dict) else None
        return sampling if isinstance(sampling, dict) else {}

    def column(self, feature: str) -> str:
        """The name of a feature's column in parquet: its own, unless the metadata section ``columns`` names another."""
        return str(self.metadata.get(COLUMNS, {}).get(feature, feature))

    def to_yaml(self) -> str:
        body = {
            "feature_spec": {name: feature.to_dict() for name, feature in self.features.items()},
            "source_spec": {
                split: [{"type": chunk.type, "features": list(chunk.features), "files": list(chunk.files)}]
                for split, chunk in self.sources.items()
            },
            "channel_spec": {name: list(features) for name, features in self.channels.items()},
            "metadata": dict(self.metadata),
        }
        return yaml.safe_dump(body, sort_keys=False)


def load_feature_spec(folder: Path | str, filename: str = FILENAME) -> FeatureSpec:
    """Reads and checks a specification.

    Raises:
        KfrecError: the file is missing or no part of the artifact, is not a specification, or contradicts itself.
    """
    path = Path(folder) / filename
    require_listed(Path(folder), [filename])
    try:
        body = plain_yaml(path.read_text())
    except FileNotFoundError:
        raise KfrecError(f"{path}: missing; give a folder that the tfrecord step wrote, or add the file") from None
    except UnicodeDecodeError:
        raise KfrecError(f"{path}: not UTF-8 text; write it as UTF-8") from None
    except yaml.YAMLError as error:
        raise KfrecError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(body, dict):
        raise KfrecError(f"{path}: not a feature specification: expected sections, found {type(body).__name__}")
    for section in ("feature_spec", "source_spec", "channel_spec"):
        if not isinstance(body.get(section), dict):
            raise KfrecError(f"{path}: section {section} is missing; see the docs on bringing your own data")
    if not isinstance(body.get("metadata") or {}, dict):
        raise KfrecError(f"{path}: section metadata is {body['metadata']!r}; make it a mapping, such as {{}}")
    features = {name: _feature(path, name, entry) for name, entry in body["feature_spec"].items()}
    sources = {split: _chunk(path, split, chunks, features) for split, chunks in body["source_spec"].items()}
    channels = {name: _names(path, f"channel {name}", listed or []) for name, listed in body["channel_spec"].items()}
    for channel, listed in channels.items():
        for name in listed:
            if name not in features:
                raise KfrecError(f"{path}: channel {channel} names {name}, which feature_spec does not describe")
    for channel, name in ((channel, name) for channel, listed in channels.items() for name in listed):
        if channel != Channel.LABEL and name in channels.get(Channel.LABEL, ()):
            raise KfrecError(
                f"{path}: {name} is in the channel {Channel.LABEL} and in {channel}, so that a model would read what "
                "it learns to predict; take it out of one of them"
            )
    for feature in features.values():
        if sources and feature.length == 0:
            raise KfrecError(f"{path}: feature {feature.name} has dimensions [null]; give one length, such as [100]")
    metadata = body.get("metadata") or {}
    columns = metadata.get(COLUMNS, {})
    if not isinstance(columns, dict) or not all(isinstance(name, str) for name in columns.values()):
        raise KfrecError(f"{path}: metadata has {COLUMNS} {columns!r}; make it a mapping of features to columns")
    for split in sources:
        _check_notes(path, split, metadata.get(split) or {})
    read_vocabularies(path, metadata.get("vocabulary"), features)
    return FeatureSpec(features, sources, channels, metadata, Path(folder))


def _names(path: Path, what: str, listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list) or not all(isinstance(name, str) and name for name in listed):
        raise KfrecError(f"{path}: {what} is {listed!r}; give a list of names")
    return tuple(listed)


def _check_notes(path: Path, split: str, notes: Any) -> None:
    """Checks kfrec's metadata of a split: rows, rows per file, and samples per record."""
    if not isinstance(notes, dict):
        raise KfrecError(f"{path}: metadata of split {split} is {notes!r}; make it a mapping, or remove it")
    rows = notes.get("rows_per_file")
    if rows is not None and not (isinstance(rows, list) and all(is_count(count) for count in rows)):
        raise KfrecError(f"{path}: rows_per_file of split {split} is {rows!r}; give whole numbers, or remove it")
    for name in ("rows", "prebatch_size"):
        if not is_count(notes.get(name, 0)):
            raise KfrecError(f"{path}: {name} of split {split} is {notes[name]!r}; give a whole number, or remove it")


def _feature(path: Path, name: str, entry: Any) -> Feature:
    if not isinstance(entry or {}, dict):
        raise KfrecError(
            f"{path}: feature {name} is {entry!r}; give its dtype, cardinality and dimensions as a mapping"
        )
    entry = entry or {}
    dimensions = entry.get("dimensions")
    is_length = isinstance(dimensions, list) and len(dimensions) == 1 and (dimensions == [None] or is_id(dimensions[0]))
    if dimensions is not None and not is_length:
        raise KfrecError(f"{path}: feature {name} has dimensions {dimensions!r}; give one length, such as [100]")
    cardinality = entry.get("cardinality")
    if cardinality is not None and not is_id(cardinality):
        raise KfrecError(
            f"{path}: feature {name} has cardinality {cardinality!r}; give its largest id, a whole number below "
            f"{LARGEST_ID}, since ids are int32"
        )
    dtype = entry.get("dtype", "int64")
    if dtype not in DTYPES:
        raise KfrecError(f"{path}: feature {name} has dtype {dtype!r}; give one of {', '.join(DTYPES)}")
    if dtype == FLOAT and cardinality is not None:
        raise KfrecError(
            f"{path}: feature {name} is {FLOAT} and has a cardinality; remove one of them, only ids have a cardinality"
        )
    return Feature(name, dtype, cardinality, (dimensions[0] or 0) if dimensions else None)


def is_count(value: Any) -> bool:
    """Whether a parsed value is an integer of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_id(value: Any) -> bool:
    """Whether a parsed value is a valid id or cardinality, above padding."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < LARGEST_ID


def _chunk(path: Path, split: str, chunks: Any, features: Mapping[str, Feature]) -> Chunk:
    if not isinstance(chunks, list) or len(chunks) != 1 or not isinstance(chunks[0], dict):
        raise KfrecError(f"{path}: split {split} must list one chunk with all features; merge its chunks")
    chunk = chunks[0]
    if chunk.get("type") != "tfrecord":
        raise KfrecError(f"{path}: split {split} is of type {chunk.get('type')!r}; only tfrecord can be trained on")
    listed = _names(path, f"features of split {split}", chunk.get("features") or [])
    files = _names(path, f"files of split {split}", chunk.get("files") or [])
    if not files:
        raise KfrecError(f"{path}: split {split} lists no files")
    if not listed:
        raise KfrecError(f"{path}: split {split} lists no features; name those that its records hold")
    for name in listed:
        if name not in features:
            raise KfrecError(f"{path}: split {split} names {name}, which feature_spec does not describe")
    return Chunk(listed, files)
