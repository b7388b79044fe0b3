"""A first schema of a table, guessed from its beginning; a person reads and corrects it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from components.datasets.tabular.entries import SEPARATOR
from components.errors import KfrecError
from components.workflows.tables import PlainLayout, Stated, batches, columns_of, is_parquet
from components.workflows.times import Times
from components.workflows.values import DEFAULT_MISSING, numbers, texts

# Rows that are looked at.
_ROWS = 100_000
_DELIMITERS = ",;\t|"
# Names of labels, the most telling ones first.
_LABELS = ("label", "target", "clicked", "click", "bought", "converted", "y", "class")
# A text column of nearly as many values as rows is an id of the row, and a model would memorise it.
_UNIQUE = 0.9
_RARE = 5
# Whole numbers of at most so many values may as well be codes.
_FEW = 20
_STATED = Stated("the schema", "or state quoting: none in the schema", "list the columns under names in the schema")


@dataclass(frozen=True)
class _Column:
    """What is known of a column.

    Attributes:
        name: of the column.
        text: its values, null where missing.
        entry: its role and settings; empty to drop it.
        why: a remark.
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


def first_schema(path: Path, label: str) -> str:
    """The text of a schema for a table like ``path``.

    Args:
        path: a CSV or parquet file.
        label: column of the label; empty guesses it.

    Raises:
        KfrecError: the file is no table, has no column ``label``, or no column that may be the label.
    """
    delimiter = "," if is_parquet(path, PlainLayout(",", (), ())) else _delimiter(path)
    names = columns_of(path, PlainLayout(delimiter, (), ()), _STATED)
    layout = PlainLayout(delimiter, (), tuple(names))
    read, rows = [], 0
    for batch in batches(path, layout, _STATED):
        read.append(batch.rows)
        rows += len(batch.rows)
        if rows >= _ROWS:
            break
    table = pa.Table.from_batches(read).combine_chunks() if read else None
    if table is None or not rows:
        raise KfrecError(f"{path}: has no rows; give a table with some")
    decimal = "," if any(_has_comma(table[name].combine_chunks()) for name in names) else "."
    columns = {name: _column(name, table[name].combine_chunks(), decimal) for name in names}
    target = _label(path, columns, label)
    time = next((name for name, column in columns.items() if column.why == _TIME and name != target.name), "")
    return "".join(f"{line}\n" for line in _lines(path, delimiter, decimal, columns, target, time))


_TIME = "a time"


def _lines(
    path: Path, delimiter: str, decimal: str, columns: dict[str, _Column], target: _Column, time: str
) -> Iterator[str]:
    yield f"# A first schema of {path.name}, guessed from its first rows: read it, and correct roles and split."
    yield "# Drop what is not known when the model is asked. docs/bring-your-own-data.md explains every line."
    if delimiter != ",":
        yield f"delimiter: {_quoted(delimiter)}"
    if decimal != ".":
        yield f"decimal: {_quoted(decimal)}"
    given: dict[str, object] = {"column": target.name}
    if not target.is_binary:
        values = pc.value_counts(target.text.drop_null()).to_pylist()
        rarest = min(values, key=lambda each: each["counts"])["values"]
        given["equals"] = rarest
    yield f"label: {_flow(given)}" + ("" if target.is_binary else "    # the positive value, or above: NUMBER")
    if time:
        yield f"split: {_flow({'by': 'time', 'column': time, 'share': 0.2, 'validation_share': 0.1})}"
    else:
        yield f"split: {_flow({'by': 'random', 'share': 0.2, 'validation_share': 0.1})}    # or by: time, where known"
    yield "columns:"
    dropped = []
    for name, column in columns.items():
        if name in (target.name, time):
            continue
        if not column.entry:
            dropped.append((name, column.why))
            continue
        yield f"  {_quoted(name)}: {_flow(column.entry)}" + (f"    # {column.why}" if column.why else "")
    if dropped:
        yield "drop:"
        for name, why in dropped:
            yield f"  - {_quoted(name)}    # {why}"


def _column(name: str, values: pa.Array, decimal: str) -> _Column:
    """Guesses the role of a column."""
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        longest = max(1, int(np.quantile(lengths, 0.95)))
        return _Column(name, pa.nulls(len(values), pa.string()), {"role": "multihot", "longest": longest})
    if pa.types.is_nested(values.type):
        return _Column(name, pa.nulls(len(values), pa.string()), {}, f"of the type {values.type}; flatten it")
    text = texts(values, DEFAULT_MISSING)
    distinct, known = pc.count_distinct(text).as_py(), len(text) - text.null_count
    if distinct <= 1:
        return _Column(name, text, {}, "one value in all rows" if known else "no value")
    if _is_time(name, values):
        return _Column(name, text, {}, _TIME)
    found, wrong = numbers(values, DEFAULT_MISSING, decimal)
    if not wrong.any():
        whole = bool(np.all(np.nan_to_num(found) == np.floor(np.nan_to_num(found))))
        if whole and _is_key(name) and distinct > _UNIQUE * known:
            return _Column(name, text, {}, "another value in nearly every row")
        if whole and _is_key(name):
            return _Column(name, text, _categorical(distinct))
        why = "or categorical, if the numbers are codes" if whole and 2 < distinct <= _FEW else ""
        return _Column(name, text, {"role": "numeric"}, why)
    separated = pc.fill_null(pc.match_substring(text, SEPARATOR), False)
    if pc.any(separated).as_py():
        lengths = pc.list_value_length(pc.split_pattern(text.drop_null(), SEPARATOR)).to_numpy(zero_copy_only=False)
        return _Column(name, text, {"role": "multihot", "longest": max(1, int(np.quantile(lengths, 0.95)))})
    if distinct > _UNIQUE * known:
        return _Column(name, text, {}, "another value in nearly every row")
    return _Column(name, text, _categorical(distinct))


def _categorical(distinct: int) -> dict[str, object]:
    return {"role": "categorical", "at_least": _RARE} if distinct > 100 else {"role": "categorical"}


def _is_key(name: str) -> bool:
    return name.lower() == "id" or name.lower().endswith(("_id", " id")) or name.endswith(("Id", "ID"))


def _is_time(name: str, values: pa.Array) -> bool:
    """Whether a column holds dates, or is called like a time and holds seconds, or thousandths of them, since 1970."""
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        return True
    times = Times(name, "", "")
    try:
        found, wrong = times.read(values, DEFAULT_MISSING)
    except KfrecError:  # dates that are not written with the year first
        return False
    if wrong.any() or np.isnan(found).all():
        return False
    return times.kind == "dates" or ("time" in name.lower() and times.per_second != 1) or _are_seconds(name, found)


def _are_seconds(name: str, values: np.ndarray) -> bool:
    return "time" in name.lower() and bool(np.nanmin(values) > 5e8)


def _label(path: Path, columns: dict[str, _Column], named: str) -> _Column:
    if named:
        if named not in columns:
            raise KfrecError(f"{path}: has no column {named!r}; it has {', '.join(columns)}")
        return columns[named]
    lower = {name.lower(): column for name, column in reversed(columns.items())}
    by_name = [lower[name] for name in _LABELS if name in lower and lower[name].entry]
    binary = [column for column in columns.values() if column.is_binary]
    for found in (*(column for column in by_name if column.is_binary), *by_name, *binary[-1:]):
        return found
    raise KfrecError(
        f"{path}: no column has the values 0 and 1 alone, or is called {' or '.join(_LABELS[:4])}; name the label with "
        "--label COLUMN. A table of users, items and times without a label is for kfrec run --dataset events"
    )


def _delimiter(path: Path) -> str:
    """The character that divides the first line most often."""
    first = (columns_of(path, PlainLayout("\1", (), ()), _STATED) or [""])[0]
    best = max(first.count(each) for each in _DELIMITERS)
    return next(each for each in _DELIMITERS if first.count(each) == best)


def _has_comma(values: pa.Array) -> bool:
    """Whether all values of a column are numbers, some with a decimal comma."""
    if not pa.types.is_string(values.type):
        return False
    # 1,234 alone may as well be a thousand and more.
    fractions = pc.match_substring_regex(values, r",(\d{1,2}|\d{4,})\s*$")
    return bool(pc.any(fractions).as_py()) and not numbers(values, DEFAULT_MISSING, ",")[1].any()


def _flow(entry: dict[str, object]) -> str:
    return yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, width=1000).strip()


def _quoted(name: str) -> str:
    return _flow({"x": name}).removeprefix("{x: ").removesuffix("}")
