"""Columns of a table as text or as numbers, whatever their type in the file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, StrictBool, StrictFloat, StrictInt, StrictStr

DEFAULT_MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "\\N")
# YAML reads 2013-11-01 as a date; tables hold it as text.
Scalar = Annotated[
    StrictStr | StrictBool | StrictInt | StrictFloat,
    BeforeValidator(lambda value: value.isoformat() if isinstance(value, date) else value),
]
# Numbers that Arrow and Python both parse.
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_WHOLE = r"^([+-]?\d+)\.0+$"
_BOOLS = pa.array(["True", "TRUE", "False", "FALSE"])
_FRACTION = r"^[+-]?\d*\.\d*[1-9]\d*$"


def texts(column: pa.Array, missing: Sequence[str]) -> pa.Array:
    """A column as stripped text, null where missing.

    A value has one text, whatever the type of its column in a file: 1, 1.0 and 1.00 are 1, True is true.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        column = pc.if_else(pa.array(np.isnan(values)), None, column)
        if is_whole(values):
            column = column.cast(pa.int64())
    column = pc.utf8_trim_whitespace(column.cast(pa.string()))
    if pc.any(pc.match_substring(column, ".0")).as_py():
        column = pc.replace_substring_regex(column, _WHOLE, r"\1")
    if pc.any(is_bool := pc.is_in(column, value_set=_BOOLS)).as_py():
        column = pc.if_else(is_bool, pc.utf8_lower(column), column)
    return pc.if_else(pc.is_in(column, value_set=pa.array(missing, pa.string())), None, column)


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


def numbers(column: pa.Array, missing: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """A column as numbers.

    Returns:
        values: float64, NaN where a value is missing or wrong.
        wrong: bool, where it is neither missing nor a finite number.
    """
    if is_text(column.type):
        text = texts(column, missing)
        fits = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False)
        values = pc.if_else(fits, text, None).cast(pa.float64()).to_numpy(zero_copy_only=False)
        wrong = pc.and_(pc.is_valid(text), pc.invert(fits)).to_numpy(zero_copy_only=False)
    else:
        values = _floats(column)
        wrong = (
            np.isnan(values)
            & pc.is_valid(column).to_numpy(zero_copy_only=False)
            & (not pa.types.is_floating(column.type))
        )
    infinite = np.isinf(values)
    return np.where(infinite, np.nan, values), wrong | infinite


def _floats(column: pa.Array) -> np.ndarray:
    """The values as float64, NaN where null or not a number, such as a date or a list."""
    try:
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return np.full(len(column), np.nan)


def with_point(column: pa.Array, decimal: str) -> pa.Array:
    """A column of numbers whose text has ``decimal`` before the fraction, with a point in its place."""
    if decimal == "." or not is_text(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return pc.replace_substring_regex(column, rf"^(\s*[+-]?\d*){decimal}(\d+([eE][+-]?\d+)?\s*)$", r"\1.\2")


def is_text(kind: pa.DataType) -> bool:
    """Whether a column is text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)


def is_among(column: pa.Array, values: Sequence[Scalar], missing: Sequence[str]) -> np.ndarray:
    """The mask of rows with one of ``values``: compared as numbers if all are numbers, else as text."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.isin(numbers(column, missing)[0], np.array(values, np.float64))
    if all(isinstance(value, bool) for value in values):
        found = pc.utf8_lower(texts(column, missing))
        wanted = [str(value).lower() for value in values]
    else:
        found, wanted = texts(column, missing), [str(value) for value in values]
    among = pc.is_in(found, value_set=pa.array(wanted, pa.string()), skip_nulls=True)
    return among.to_numpy(zero_copy_only=False)


class IdCheck:
    """Checks the values of an id column: numbers with a fraction among whole numbers are no ids.

    Text may hold such numbers, as versions do.
    """

    def __init__(self) -> None:
        self._has_text = False
        self._fraction = ""

    def add(self, values: pa.Array) -> None:
        """Takes text values."""
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
