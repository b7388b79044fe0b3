"""What the columns of a table are, guessed from some rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets.tabular.entries import SEPARATOR
from components.errors import KfrecError
from components.workflows.times import Times
from components.workflows.values import DEFAULT_MISSING, is_text, numbers, texts

# A text column of nearly as many values as rows is an id of the row, and a model would memorise it.
_UNIQUE = 0.9
_RARE = 5
# Columns of numbers that count the rows, by the names that pandas and others give them.
_ROW_NUMBERS = r"(unnamed: .*|index|row_?(id|number)?|__index_level_\d+__)?"
# What stands for a missing number.
_PLACEHOLDER = (
    r"[^\w\s]+|[+-]?inf(inity)?|unknown|missing|none|nil|n\.a\.|not available|#(div/0|value|ref|name|num|null)[!?]"
)
# Digits of which the first is no part of a number, such as those of post codes.
_CODE = r"^0\d"
# Dates that Times reads only in a stated format, and numbers that are not written plainly.
_DATE = (
    r"^(\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{1,2}[- ]?[A-Za-z]{3,9}[- ,]*\d{2,4}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4})"
    r"([ T,].*)?$"
)
_DECORATED = r"^\(?[-+]?\s*[$€£]?\s*[-+]?(\d{1,3}([,.' ]\d{3})+|\d+)([.,]\d+)?\s*[%€$£]?\)?$"
# Whole numbers of at most so many values may as well be codes.
FEW = 20
TIME = "a time"


@dataclass(frozen=True)
class GuessedColumn:
    """What is known of a column.

    Attributes:
        text: its values, null where missing.
        entry: its role and settings; empty to drop it.
    """

    name: str
    text: pa.Array
    entry: dict[str, object]
    why: str = ""

    @property
    def is_binary(self) -> bool:
        """Whether its values are 0 and 1, or true and false."""
        values = set(pc.unique(self.text.drop_null()).to_pylist())
        return values in ({"0", "1"}, {"true", "false"})


def guessed(name: str, values: pa.Array, missing: Sequence[str], decimal: str) -> GuessedColumn:
    """Guesses the role of a column.

    Args:
        missing: texts that stand for a missing value.
    """
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        longest = max(1, int(np.quantile(lengths, 0.95)))
        return GuessedColumn(name, pa.nulls(len(values), pa.string()), {"role": "multihot", "longest": longest})
    if pa.types.is_nested(values.type):
        return GuessedColumn(name, pa.nulls(len(values), pa.string()), {}, f"of the type {values.type}; flatten it")
    text = texts(values, missing)
    distinct, known = pc.count_distinct(text).as_py(), len(text) - text.null_count
    if distinct <= 1:
        return GuessedColumn(name, text, {}, "one value in all rows" if known else "no value")
    if _is_time(name, values, missing):
        return GuessedColumn(name, text, {}, TIME)
    found, wrong = numbers(values, missing, decimal)
    are_codes = is_text(values.type) and pc.any(pc.match_substring_regex(text, _CODE)).as_py()
    if not wrong.any() and not are_codes:
        whole = bool(np.all(np.nan_to_num(found) == np.floor(np.nan_to_num(found))))
        if whole and _is_key(name) and distinct > _UNIQUE * known:
            return GuessedColumn(name, text, {}, "another value in nearly every row")
        if whole and _is_key(name):
            return GuessedColumn(name, text, _categorical(text))
        why = "or categorical, if the numbers are codes" if whole and 2 < distinct <= FEW else ""
        return GuessedColumn(name, text, {"role": "numeric"}, why)
    for pattern, why in (
        (_DATE, "dates; to split by time, state their format"),
        (_DECORATED, "numbers; write them plainly"),
    ):
        if is_text(values.type) and wrong.any() and pc.all(pc.match_substring_regex(text, pattern)).as_py():
            return GuessedColumn(name, text, {}, why)
    separated = pc.fill_null(pc.match_substring(text, SEPARATOR), False)
    if pc.any(separated).as_py():
        lengths = pc.list_value_length(pc.split_pattern(text.drop_null(), SEPARATOR)).to_numpy(zero_copy_only=False)
        return GuessedColumn(name, text, {"role": "multihot", "longest": max(1, int(np.quantile(lengths, 0.95)))})
    if distinct > _UNIQUE * known:
        return GuessedColumn(name, text, {}, "another value in nearly every row")
    return GuessedColumn(name, text, _categorical(text))


def _categorical(text: pa.Array) -> dict[str, object]:
    counts = pc.struct_field(pc.value_counts(text.drop_null()), "counts")
    has_frequent = len(counts) > 100 and pc.max(counts).as_py() > 2 * _RARE
    return {"role": "categorical", "at_least": _RARE} if has_frequent else {"role": "categorical"}


def _is_key(name: str) -> bool:
    if re.fullmatch(_ROW_NUMBERS, name.lower()):
        return True
    return name.lower() == "id" or name.lower().endswith(("_id", " id")) or name.endswith(("Id", "ID"))


def _is_time(name: str, values: pa.Array, missing: Sequence[str]) -> bool:
    """Whether a column holds dates, or is called like a time and holds seconds, or thousandths of them, since 1970."""
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        return True
    times = Times(name, "", "")
    try:
        found, wrong = times.read(values, missing)
    except KfrecError:  # dates that are not written with the year first
        return False
    if wrong.any() or np.isnan(found).all():
        return False
    is_time = "time" in name.lower() and (times.per_second != 1 or bool(np.nanmin(found) > 5e8))
    return times.kind == "dates" or is_time


def placeholders(columns: Iterable[pa.Array]) -> list[str]:
    """Texts beside those of DEFAULT_MISSING that stand for a missing value: ``?``, and what is not a number among
    numbers."""
    found: set[str] = set()
    for column in columns:
        if pa.types.is_nested(column.type) or not (is_text(column.type) or pa.types.is_floating(column.type)):
            continue
        text = texts(column, DEFAULT_MISSING)
        distinct = pc.unique(text.drop_null())
        found |= {"?"} & set(distinct.filter(pc.equal(distinct, "?")).to_pylist())
        for decimal in (".", ","):
            wrong = numbers(column, DEFAULT_MISSING, decimal)[1]
            odd = pc.unique(text.filter(pa.array(wrong))).to_pylist()
            is_mostly_numbers = 0 < 2 * wrong.sum() < len(text) - text.null_count
            if is_mostly_numbers and all(re.fullmatch(_PLACEHOLDER, each, re.IGNORECASE) for each in odd):
                found |= set(odd)
    return sorted(found)


def has_comma(values: pa.Array, missing: Sequence[str]) -> bool:
    """Whether all values of a column are numbers, some with a decimal comma."""
    if not pa.types.is_string(values.type):
        return False
    # 1,234 alone may as well be a thousand and more.
    fractions = pc.match_substring_regex(values, r",(\d{1,2}|\d{4,})\s*$")
    return bool(pc.any(fractions).as_py()) and not numbers(values, missing, ",")[1].any()
