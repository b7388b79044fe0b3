"""Columns of a table as text or as numbers, whatever their type in the file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, StrictBool, StrictFloat, StrictInt, StrictStr

from components.errors import KfrecError

if TYPE_CHECKING:
    import pandas as pd

# As pandas.read_csv, with \\N of databases and NaT of pandas' own files.
DEFAULT_MISSING = (
    "", "#N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null", "\\N",
)  # fmt: skip
# YAML reads 2013-11-01 as a date; tables hold it as text.
Scalar = Annotated[
    StrictStr | StrictBool | StrictInt | StrictFloat,
    BeforeValidator(lambda value: value.isoformat() if isinstance(value, date) else value),
]
# Numbers that Arrow and Python both parse.
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_WHOLE = r"^([+-]?\d+)\.0+$"
_BOOLS = pa.array(["True", "TRUE", "False", "FALSE"])
# What YAML reads as true and as false where it is not in quotes.
_WORDS = {True: ("true", "yes", "on"), False: ("false", "no", "off")}
# Spreadsheets round long numbers to 1.23457E+12.
_FRACTION = r"^[+-]?(\d*\.\d*[1-9]\d*|\d*\.?\d+[eE][+-]?\d+)$"
# Lists, tuples and sets as Python writes them, JSON, and arrays of PostgreSQL; and lists of several values alone.
_LIST = r"^(\[.*\]|\(.*,.*\)|\{.*\})$"
_SEVERAL = r"^\[.*,.*\]$"
_MIDNIGHT = r"^(\d{4}-\d{2}-\d{2})[ T]00:00(:00(\.0*)?)?(Z|\+00:00)?$"


def plain_type(name: str, column: pa.Array) -> pa.Array:
    """A column without views, extensions, bytes and lists of fixed size, which Arrow's functions do not all take.

    Raises:
        KfrecError: bytes are not UTF-8.
    """
    try:
        return _plain(column)
    except pa.ArrowException as error:
        said = " ".join(str(error).split())
        raise KfrecError(
            f"column {name!r} of the type {column.type} cannot be read as text ({said}); convert it"
        ) from None


def _plain(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        if isinstance(column.type, pa.UuidType):
            return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
        return _plain(column.storage)
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        column = column.cast(pa.list_(kind.value_type))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        leaves = column.flatten()
        if (plain := _plain(leaves)).type == leaves.type:
            return column
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        return pa.LargeListArray.from_arrays(pa.array(np.r_[0, np.cumsum(lengths)], pa.int64()), plain)
    if pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.binary())
    is_bytes = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    return column.cast(pa.string()) if is_bytes else column


def array_of(name: str, values: Sequence[Any] | pd.Series) -> pa.Array:
    """A column of Python's values or lists; those of several types, such as 3 and "3", are text, and NaN is null.

    Raises:
        KfrecError: lists and single values are mixed, or text has half of a surrogate pair.
    """
    try:
        return pa.array(values, from_pandas=True)
    except UnicodeEncodeError:
        raise KfrecError(f"column {name} holds text with a surrogate without its pair; correct it") from None
    except (pa.ArrowException, OverflowError):
        pass
    nested = [value for value in values if isinstance(value, list | tuple | dict | np.ndarray)]
    if not nested:
        return pa.array([_as_text(value) for value in values], pa.string())
    if any(isinstance(value, dict) for value in nested) or sum(map(_is_missing, values)) + len(nested) < len(values):
        raise KfrecError(f"column {name} holds values of several types, lists among them; give all rows one type")
    lists = [None if _is_missing(value) else [_as_text(each) for each in value] for value in values]
    return pa.array(lists, pa.list_(pa.string()))


def _as_text(value: Any) -> str | None:
    return None if _is_missing(value) else str(value)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def texts(column: pa.Array, missing: Sequence[str]) -> pa.Array:
    """A column as stripped text, null where missing.

    A value has one text, whatever the type of its column in a file: 1, 1.0 and 1.00 are 1, True is true, and a date at
    midnight is the date.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        column = pc.if_else(pa.array(np.isnan(values)), None, column)
        if is_whole(values):
            column = column.cast(pa.int64())
    is_padded = pa.types.is_decimal(column.type) or pa.types.is_temporal(column.type)
    column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    if is_padded:  # as 3.50 and 10:30:00.000000, by the type's number of digits
        column = pc.replace_substring_regex(column, r"(\.\d*?)0+(Z?)$", r"\1\2")
        column = pc.replace_substring_regex(column, r"\.(Z?)$", r"\1")
    if pc.any(pc.match_substring(column, "00:00")).as_py():
        column = pc.replace_substring_regex(column, _MIDNIGHT, r"\1")
    if pc.any(pc.match_substring(column, ".0")).as_py():
        column = pc.replace_substring_regex(column, _WHOLE, r"\1")
    if pc.any(is_bool := pc.is_in(column, value_set=_BOOLS)).as_py():
        column = pc.if_else(is_bool, pc.utf8_lower(column), column)
    return pc.if_else(pc.is_in(column, value_set=pa.array(_spelled(tuple(missing)), pa.string())), None, column)


@cache
def _spelled(missing: tuple[str, ...]) -> tuple[str, ...]:
    """Texts that stand for a missing value, as given and as ``texts`` writes them."""
    return (*missing, *texts(pa.array(missing, pa.string()), ()).to_pylist()) if missing else ()


def inexact(column: pa.Array) -> np.ndarray:
    """The mask of floats that are no ids: from 2**53 on, a float may stand for several whole numbers."""
    if not pa.types.is_floating(column.type):
        return np.zeros(len(column), bool)
    values = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return np.abs(np.nan_to_num(values)) >= 2.0**53


def is_whole(values: np.ndarray) -> bool:
    """Whether all known numbers are whole, and exact as floats."""
    known = values[~np.isnan(values)]
    return bool(np.all((np.abs(known) < 2.0**53) & (known == np.floor(known))))


def numbers(column: pa.Array, missing: Sequence[str], decimal: str = ".") -> tuple[np.ndarray, np.ndarray]:
    """A column as numbers.

    Args:
        missing: texts that stand for a missing value; those that are numbers do in every type of column.

    Returns:
        values: float64, NaN where a value is missing or wrong.
        wrong: bool, where it is neither missing nor a finite number.
    """
    if is_text(column.type):
        text = texts(column, missing)
        fits = pc.fill_null(pc.match_substring_regex(text, _NUMBER.replace(r"\.", f"[{decimal}]")), False)
        plain = pc.if_else(fits, text, None)
        plain = plain if decimal == "." else pc.replace_substring(plain, decimal, ".")
        values = plain.cast(pa.float64()).to_numpy(zero_copy_only=False)
        wrong = pc.and_(pc.is_valid(text), pc.invert(fits)).to_numpy(zero_copy_only=False)
    else:
        values = _floats(column)
        is_other = not pa.types.is_floating(column.type)
        wrong = np.isnan(values) & pc.is_valid(column).to_numpy(zero_copy_only=False) & is_other
    absent = np.isin(values, [float(text) for text in missing if _is_number(text)])
    unbounded = np.isinf(values) & ~absent
    return np.where(absent | unbounded, np.nan, values), wrong | unbounded


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _floats(column: pa.Array) -> np.ndarray:
    """The values as float64, NaN where null or not a number, such as a date or a list."""
    try:
        # Whole numbers from 2**53 on are rounded, as those of text are.
        return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return np.full(len(column), np.nan)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)


def is_deep(kind: pa.DataType) -> bool:
    """Whether a column is nested other than as lists of values."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return pa.types.is_nested(kind) and not (is_list and not pa.types.is_nested(kind.value_type))


def is_among(column: pa.Array, values: Sequence[Scalar], missing: Sequence[str], decimal: str = ".") -> np.ndarray:
    """The mask of rows with one of ``values``: compared as numbers if all are numbers, else as ``texts``.

    True stands for the texts that YAML reads so, such as Yes, and False for theirs.
    """
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.isin(numbers(column, missing, decimal)[0], np.array(values, np.float64))
    found = texts(column, missing)
    wanted = texts(pa.array([str(value) for value in values if not isinstance(value, bool)], pa.string()), ())
    words = [word for value in values if isinstance(value, bool) for word in _WORDS[value]]
    among = pc.or_(
        pc.is_in(found, value_set=wanted, skip_nulls=True),
        pc.is_in(pc.utf8_lower(found), value_set=pa.array(words, pa.string()), skip_nulls=True),
    )
    return among.to_numpy(zero_copy_only=False)


def written_lists(text: pa.Array, several: bool = False) -> np.ndarray:
    """The mask of lists as programs write them, such as ``['a', 'b']``, which would be one value each.

    Args:
        several: whether to leave out braces and lists of one value, as names in brackets may be.
    """
    found = pc.match_substring_regex(text, _SEVERAL if several else _LIST)
    return pc.fill_null(found, False).to_numpy(zero_copy_only=False)


class IdCheck:
    """Checks the values of an id column: numbers with a fraction among whole numbers are no ids.

    Text may hold such numbers, as versions do.
    """

    def __init__(self) -> None:
        self._has_text = False
        self._fraction = ""

    def add(self, values: pa.Array) -> None:
        if self._has_text:
            return
        distinct = pc.drop_null(pc.unique(values))
        is_number = pc.match_substring_regex(distinct, _NUMBER)
        self._has_text = not pc.all(is_number, min_count=0).as_py()
        fractions = distinct.filter(pc.match_substring_regex(distinct, _FRACTION))
        if len(fractions) and not self._fraction:
            self._fraction = fractions[0].as_py()

    @property
    def fraction(self) -> str:
        """A value with a fraction in a column of numbers; empty where there is none."""
        return "" if self._has_text else self._fraction
