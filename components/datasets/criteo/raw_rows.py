"""Raw rows of impressions: 13 integers and 26 hexadecimal values, named as the features; any may be missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.artifacts.folder import require_listed
from components.datasets.criteo.columns import (
    CATEGORICAL,
    DIGITS,
    NUMERICAL,
    logarithms,
    parse_hexadecimal,
    write_hexadecimal,
)
from components.datasets.criteo.vocabulary import read_vocabulary
from components.datasets.raw_rows import VALUE, Encoded, RawColumn
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.vocabulary import vocabulary_file

# pandas writes integers with gaps with a fraction of 0.
_INTEGER, _FRACTION = r"^-?\d{1,18}(\.0*)?$", r"\.0*$"
_HEX = rf"^[0-9a-fA-F]{{{DIGITS}}}$"
# Whole numbers up to this one are exact as floats.
_EXACT = 2.0**53


class ImpressionRows:
    """Encodes the columns int_1 to int_13 and cat_1 to cat_26; see ``components.datasets.raw_rows.RawRows``.

    Raises:
        KfrecError: the vocabulary of a column is missing or damaged.
    """

    def __init__(self, spec: FeatureSpec, inputs: Collection[str]) -> None:
        if left := sorted(set(inputs) - {*NUMERICAL, *CATEGORICAL}):
            raise KfrecError(
                f"{spec.folder}: the model reads {', '.join(left)}, which no column of an impression gives"
            )
        self._numbers = [name for name in NUMERICAL if name in inputs]
        categories = [name for name in CATEGORICAL if name in inputs]
        require_listed(spec.folder, map(vocabulary_file, categories))
        self._ids = {name: read_vocabulary(name, spec.folder, "train the model again") for name in categories}
        first = {name: known.values[np.argsort(known.ids)[:1]] for name, known in self._ids.items()}
        self._most_frequent = {name: write_hexadecimal(value).to_pylist() for name, value in first.items()}
        digits = f"{DIGITS} hexadecimal digits, or missing"
        self.columns = (
            *(RawColumn(name, VALUE, "an integer, or missing") for name in self._numbers),
            *(RawColumn(name, VALUE, digits) for name in categories),
        )

    def encode(self, rows: Mapping[str, pa.Array]) -> Encoded:
        """See ``components.datasets.raw_rows.RawRows``."""
        count = max((len(values) for values in rows.values()), default=0)
        features = {name: logarithms(_integers(name, rows[name])).to_numpy() for name in self._numbers}
        unknown = {}
        for name, known in self._ids.items():
            values, there = _values(name, rows[name])
            features[name] = np.where(there, known.find(values), np.int32(0))
            unknown[name] = (there & (features[name] == 0)).astype(np.int32)
        return Encoded(
            {name: np.broadcast_to(values, count) for name, values in features.items()},
            {name: np.broadcast_to(lacking, count) for name, lacking in unknown.items()},
        )

    def example(self) -> dict[str, list[Any]]:
        """See ``components.datasets.raw_rows.RawRows``."""
        numbers = {name: [1, None] for name in self._numbers}
        return numbers | {name: [*first, None, None][:2] for name, first in self._most_frequent.items()}


def _integers(name: str, column: pa.Array) -> pa.Array:
    """A column of text or numbers as int64, null where missing."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.int64())
    if pa.types.is_floating(kind):
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        missing = np.isnan(values)
        integral = missing | ((np.abs(values) <= _EXACT) & (np.floor(values) == values))
        _require(integral, name, column, "an integer")
        return pa.array(np.where(missing, 0, values).astype(np.int64), mask=missing)
    if _is_text(kind):
        text = _text(column)
        fits = pc.fill_null(pc.match_substring_regex(text, _INTEGER), True)
        _require(fits.to_numpy(zero_copy_only=False), name, column, "an integer")
        return pc.replace_substring_regex(text, _FRACTION, "").cast(pa.int64())
    if not pa.types.is_integer(kind):
        raise KfrecError(f"column {name} is of the type {kind}; give integers")
    if kind == pa.uint64():
        _require(
            pc.fill_null(pc.less(column, pa.scalar(2**63, kind)), True).to_numpy(zero_copy_only=False),
            name,
            column,
            "an integer",
        )
    return column.cast(pa.int64())


def _values(name: str, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """A column of hexadecimal text as uint32, and its validity mask, bool."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_empty(column):
        return np.zeros(len(column), np.uint32), np.zeros(len(column), bool)
    if not _is_text(column.type):
        raise KfrecError(
            f"column {name} is of the type {column.type}; give {DIGITS} hexadecimal digits as text, such "
            "as with dtype=str of pandas"
        )
    text = _text(column)
    fits = pc.fill_null(pc.match_substring_regex(text, _HEX), True)
    _require(fits.to_numpy(zero_copy_only=False), name, column, f"{DIGITS} hexadecimal digits")
    filled = pc.fill_null(text, "0" * DIGITS)
    numbers = parse_hexadecimal(filled.cast(pa.binary()).cast(pa.binary(DIGITS)))
    assert numbers is not None
    return numbers.to_numpy(), text.is_valid().to_numpy(zero_copy_only=False)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_empty(column: pa.Array) -> bool:
    """Whether no row has a value; pandas holds such a column as floats."""
    return pc.all(pc.is_null(column, nan_is_null=True), min_count=0).as_py()


def _text(column: pa.Array) -> pa.Array:
    """Stripped text, null where empty."""
    trimmed = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)


def _require(fits: np.ndarray, name: str, column: pa.Array, wanted: str) -> None:
    """Rejects a column with an invalid value.

    Raises:
        KfrecError: a value is invalid.
    """
    if not fits.all():
        value = column[int(np.flatnonzero(~fits)[0])].as_py()
        raise KfrecError(
            f"column {name} has {value!r:.60}, which is not {wanted}; correct it, or leave it empty where it is missing"
        )
