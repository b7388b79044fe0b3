"""The features of a record as arrays that kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from components.feature_spec import Channel, Feature, FeatureSpec
from components.native.arrays import ALIGNMENT
from components.native.compiled import kernel
from components.records.words import LARGEST, SLACK

# Tags: a field's number and its wire type.
FIRST, SECOND = 1 << 3 | 2, 2 << 3 | 2
FLOAT_LIST, INT64_LIST = 2 << 3 | 2, 3 << 3 | 2
ENTRY_HEAD = 10  # bytes of an entry before its values, without its name
_GRAIN = ALIGNMENT // 4


class Fields(NamedTuple):
    """The features to decode.

    Kernels unpack it once: each access to an array of a tuple counts its references.

    Attributes:
        keys: their concatenated UTF-8 names, followed by words.SLACK bytes.
        key_ends: end offset of each name in ``keys``, after a leading 0.
        heads: uint64 [features, words, 3]; see ``_head``.
        padded: whether the feature is a list, which may be shorter than its length.
        limits: largest accepted value of each.
        floats: whether the feature is float32.
        partners: the first feature of the same history, whose lists are as long in a record; else the feature itself.
    """

    keys: np.ndarray
    key_ends: np.ndarray
    heads: np.ndarray
    lengths: np.ndarray
    padded: np.ndarray
    limits: np.ndarray
    floats: np.ndarray
    partners: np.ndarray


@dataclass(frozen=True)
class Layout:
    """Features in the order of the flat output.

    Attributes:
        fields: the same for kernels.
    """

    features: tuple[Feature, ...]
    fields: Fields

    @property
    def width(self) -> int:
        """Values in one sample."""
        return int(self.fields.lengths.sum())

    def starts(self, rows: int) -> np.ndarray:
        """Start offset of each feature in the flat output of ``rows`` samples, and its end; all are aligned."""
        lengths = self.fields.lengths
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(-(-lengths * rows // _GRAIN) * _GRAIN, out=starts[1:])
        return starts


def layout_of(spec: FeatureSpec, names: Sequence[str]) -> Layout:
    """The layout of the features ``names``. Values of the dtype bool must be 0 or 1, ids at most their cardinality."""
    features = tuple(spec.features[name] for name in names)
    keys = [feature.name.encode() for feature in features]
    words = -(-(max(map(len, keys)) + ENTRY_HEAD) // 8)
    limits = [1 if f.is_bool else (f.cardinality or LARGEST - 1) for f in features]
    fields = Fields(
        np.frombuffer(b"".join(keys) + bytes(SLACK), np.uint8).copy(),
        np.cumsum([0, *map(len, keys)]),
        np.stack([_head(key, feature.is_float, words) for key, feature in zip(keys, features, strict=True)]),
        np.array([f.length or 1 for f in features], np.int64),
        np.array([f.length is not None for f in features]),
        np.array(limits, np.int64),
        np.array([f.is_float for f in features]),
        _partners(spec, names),
    )
    return Layout(features, fields)


def _partners(spec: FeatureSpec, names: Sequence[str]) -> np.ndarray:
    """See ``Fields``."""
    partners = np.arange(len(names))
    for channel in (Channel.POSITIVE, Channel.NEGATIVE):
        places = [place for place, name in enumerate(names) if name in spec.channels.get(channel, ())]
        partners[places] = places[:1] * len(places)
    return partners


def _head(key: bytes, is_float: bool, words: int) -> np.ndarray:
    """What precedes the values of a feature in the usual entry: one packed list, and sizes of one byte.

    Returns:
        uint64 [words, 3]: the bytes of an empty list's head as words, a mask of them, and what each byte of values adds
        to them.
    """
    kind = FLOAT_LIST if is_float else INT64_LIST
    size = len(key)
    entry = bytes([FIRST, size + ENTRY_HEAD - 2, FIRST, size]) + key + bytes([SECOND, 4, kind, 2, FIRST, 0])
    head = np.zeros((3, 8 * words), np.uint8)
    head[0, : len(entry)] = bytearray(entry)
    head[1, : len(entry)] = 0xFF
    head[2, [1, size + 5, size + 7, size + 9]] = 1
    return head.view("<u8").T.copy()


@kernel
def head_words(key_size):  # type: ignore[no-untyped-def]
    """Words of the head with a name of this size."""
    return (key_size + ENTRY_HEAD + 7) >> 3


@kernel
def is_short(key_size, payload):  # type: ignore[no-untyped-def]
    """Whether an entry has the usual head: its length, which does not count its own two bytes, takes one byte."""
    return key_size + ENTRY_HEAD + payload - 2 < 1 << 7
