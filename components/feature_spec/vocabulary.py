"""Vocabularies: the values behind feature ids, as the metadata of a feature specification describes them.

    metadata:
      vocabulary:
        uid: {file: vocabulary/uid.parquet, unknown: 2, features: [uid]}
        item: {file: vocabulary/item.parquet, unknown: 2, features: [item_trgt, item_pos, item_neg]}
        tokens: {file: vocabulary/tokens.parquet, unknown: 1, features: [input_ids], exact: true}
        event_price: {file: vocabulary/event_price.parquet, unknown: 2, features: [...], intervals: true}

A file has the columns id and value (string). Features that share a table of ids share a vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import KfrecError

# The folder of the files, in the artifact of every step.
VOCABULARY = "vocabulary"
# What a vocabulary may state, see ``Vocabulary``.
_MARKS = ("exact", "intervals")
# The id of an unseen value in NVTabular's Categorify.
NVTABULAR_UNKNOWN = 2
# What the positional layout appends to the name of an item feature: the target, the positive and the negative history.
TARGET_SUFFIX, POSITIVE_SUFFIX, NEGATIVE_SUFFIX = "_trgt", "_pos", "_neg"


def vocabulary_file(name: str) -> str:
    """The path of a vocabulary in an artifact."""
    return f"{VOCABULARY}/{name}.parquet"


@dataclass(frozen=True)
class Vocabulary:
    """The values of the ids of some features.

    Attributes:
        name: such as "item".
        file: path of the parquet file, relative to the specification.
        unknown: the id of an out-of-vocabulary value; 0 where unknown values share the id of padding.
        exact: whether a model of these ids reads no others. Ids of users or items are translated from one vocabulary to
            another; tokens are not, since another vocabulary splits words otherwise.
        intervals: whether the values are lower bounds of intervals of numbers, ascending.
    """

    name: str
    file: str
    unknown: int
    features: tuple[str, ...]
    exact: bool = False
    intervals: bool = False

    def to_dict(self) -> dict[str, Any]:
        body = {"file": self.file, "unknown": self.unknown, "features": list(self.features)}
        return {**body, **{name: True for name in _MARKS if getattr(self, name)}}


def positional_vocabulary(name: str, file: str, features: Collection[str]) -> Vocabulary:
    """The vocabulary of a user or item feature of the positional layout, encoded by NVTabular.

    Args:
        name: user or item feature.
    """
    names = (name, *(name + suffix for suffix in (TARGET_SUFFIX, POSITIVE_SUFFIX, NEGATIVE_SUFFIX)))
    return Vocabulary(name, file, NVTABULAR_UNKNOWN, tuple(feature for feature in names if feature in features))


def read_vocabularies(path: Path, listed: Any, features: Collection[str]) -> tuple[Vocabulary, ...]:
    """Parses and checks the section ``vocabulary`` of a specification's metadata.

    Args:
        path: the specification, for messages.
        listed: the section; None is empty.

    Raises:
        KfrecError: it is malformed, names an unknown feature, or names a feature twice.
    """
    if not isinstance(listed or {}, dict):
        raise KfrecError(f"{path}: metadata has vocabulary {listed!r}; give a mapping of names to files, or remove it")
    vocabularies = tuple(_vocabulary(path, str(name), entry, features) for name, entry in (listed or {}).items())
    _require_one_each(path, vocabularies)
    return vocabularies


def _vocabulary(path: Path, name: str, entry: Any, features: Collection[str]) -> Vocabulary:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("file"), str):
        raise KfrecError(f"{path}: vocabulary {name} is {entry!r}; give its file, unknown id and features as a mapping")
    unknown, named = entry.get("unknown"), entry.get("features", [name])
    if not isinstance(unknown, int) or isinstance(unknown, bool) or unknown < 0:
        raise KfrecError(f"{path}: vocabulary {name} has unknown {unknown!r}; give the id of unknown values")
    if not isinstance(named, list):
        raise KfrecError(f"{path}: vocabulary {name} has features {named!r}; give a list of names")
    for feature in named:
        if feature not in features:
            raise KfrecError(f"{path}: vocabulary {name} names {feature}, which feature_spec does not describe")
    marks = {mark: entry.get(mark, False) for mark in _MARKS}
    for mark, value in marks.items():
        if not isinstance(value, bool):
            raise KfrecError(f"{path}: vocabulary {name} has {mark} {value!r}; give true or false")
    return Vocabulary(name, entry["file"], unknown, tuple(named), **marks)


def _require_one_each(path: Path, vocabularies: Iterable[Vocabulary]) -> None:
    first: dict[str, str] = {}
    for vocabulary in vocabularies:
        for feature in vocabulary.features:
            if first.setdefault(feature, vocabulary.name) != vocabulary.name:
                raise KfrecError(
                    f"{path}: vocabularies {first[feature]} and {vocabulary.name} both name {feature}; give it one"
                )
