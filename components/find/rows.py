"""Hashes of a table's rows by content: a row has one hash in CSV, gzip, zip and parquet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from components.random_draws import GAMMA, mixed
from components.workflows.tables import Layout, Stated, batches, columns_of, delimiter_of, is_parquet
from components.workflows.times import Times
from components.workflows.values import DEFAULT_MISSING, texts

_STATED = Stated("find", "", "")
# No name of a column: a number or a date.
_VALUE = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|\d[-/.:]\d"
# The index of a DataFrame, which pandas writes beside the columns.
_INDEX = r"^$|^Unnamed: 0$|^__index_level_\d+__$"
# Integers that are exact as int64; ids with leading zeros are text.
_WHOLE = r"^-?(0|[1-9]\d{0,17})$"
_NUMBER = r"^[+-]?(\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][+-]?\d+)$"
_DATE = r"^\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ]|$)"
# Seconds since 1970 of 1985 to 2128, which no other unit reaches.
_FIRST, _LAST = 5 * 10**8, 5 * 10**9


def row_hashes(path: Path) -> Iterator[np.ndarray]:
    """Yields a hash of each row, uint64 ``[n]``, in blocks.

    Columns count by name, in any order, or by position in a table without a header; a missing value is as no column,
    and so is the index of a DataFrame.
    1, 1.0 and 1.00 are equal, and so are a time in seconds, ms, us or ns since 1970 and its date in ISO 8601.

    Raises:
        KfrecError: the table is damaged, not UTF-8, or has a quote that is left open.
    """
    delimiter = "," if is_parquet(path, Layout("", (), ())) else delimiter_of(path, _STATED)
    first = columns_of(path, Layout(delimiter, (), ()), _STATED)
    names = [name for name in first if not re.match(_INDEX, name)]
    positions = () if _are_names(names) else tuple(str(position) for position in range(len(first)))
    for batch in batches(path, Layout(delimiter, positions, positions or tuple(names)), _STATED):
        hashed = np.zeros(len(batch.rows), np.uint64)
        for name, column in zip(batch.rows.schema.names, batch.rows.columns, strict=True):
            hashed += _hashes_of(name, column)
        yield mixed(hashed)
        if batch.bad:
            yield _of_texts([line.text.decode(errors="replace") for line in batch.bad])


def _are_names(first: Sequence[str]) -> bool:
    """Whether the first line is a header."""
    is_value = pc.match_substring_regex(pa.array(first, pa.string()), _VALUE)
    return 1 < len(first) == len(set(first)) and not pc.any(is_value).as_py()


def _hashes_of(name: str, column: pa.Array) -> np.ndarray:
    """A hash of each value in a column, 0 where it is missing."""
    if pa.types.is_nested(column.type):
        column = pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    encoded = texts(column, DEFAULT_MISSING).dictionary_encode()
    hashed = np.append(mixed(_of_values(encoded.dictionary) + _of_texts([name])), np.uint64(0))
    return np.asarray(hashed[pc.fill_null(encoded.indices, len(hashed) - 1).to_numpy()])


def _of_texts(values: Sequence[str] | np.ndarray) -> np.ndarray:
    return pd.util.hash_array(np.asarray(values, object), categorize=False)


def _of_values(values: pa.Array) -> np.ndarray:
    """A hash of each text; numbers and times by their value."""
    hashed = _of_texts(values.to_numpy(zero_copy_only=False))

    def where(pattern: str) -> np.ndarray:
        return np.asarray(pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False))

    if (chosen := where(_WHOLE)).any():
        hashed[chosen] = _of_integers(values.filter(pa.array(chosen)).cast(pa.int64()).to_numpy())
    if (chosen := where(_NUMBER)).any():
        hashed[chosen] = _of_floats(values.filter(pa.array(chosen)).cast(pa.float64()).to_numpy())
    if (chosen := where(_DATE)).any():
        dates = values.filter(pa.array(chosen))
        fractions = pc.struct_field(pc.extract_regex(dates, r"(?P<digits>\.\d+)"), "digits").fill_null("")
        nanoseconds = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.utf8_ltrim(fractions, "."), 9, "0"), 0, 9)
        seconds, _ = Times("", "", "").read(pc.replace_substring_regex(dates, r"\.\d+", ""), ())
        known = np.isfinite(seconds)
        times = _of_times(seconds[known].astype(np.int64), nanoseconds.cast(pa.int64()).to_numpy()[known])
        hashed[np.flatnonzero(chosen)[known]] = times
    return hashed


def _of_integers(values: np.ndarray) -> np.ndarray:
    seconds, nanoseconds = values.copy(), np.zeros_like(values)
    for unit in (10**3, 10**6, 10**9):
        is_time = (values >= _FIRST * unit) & (values < _LAST * unit)
        seconds[is_time] = values[is_time] // unit
        nanoseconds[is_time] = values[is_time] % unit * (10**9 // unit)
    return _of_times(seconds, nanoseconds)


def _of_floats(values: np.ndarray) -> np.ndarray:
    """Numbers with a fraction are compared as float32, times as microseconds."""
    floors = np.floor(np.clip(values, -9e18, 9e18))
    is_whole, is_time = values == floors, (values >= _FIRST) & (values < _LAST)
    rounded = values.astype(np.float32).view(np.int32).astype(np.int64)
    micro = np.round((values - floors) * 1e6).astype(np.int64)
    hashed = _of_times(rounded, np.full(len(values), -1))
    hashed = np.where(is_time, _of_times(floors.astype(np.int64) + micro // 10**6, micro % 10**6 * 1000), hashed)
    return np.where(is_whole, _of_integers(floors.astype(np.int64)), hashed)


def _of_times(seconds: np.ndarray, nanoseconds: np.ndarray) -> np.ndarray:
    return mixed(mixed(seconds.view(np.uint64) + GAMMA) + nanoseconds.view(np.uint64))
