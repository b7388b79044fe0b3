"""Schemas that kfrec writes.

A first schema is guessed from a table's beginning; a person reads and corrects it. That of answered rows is the model's
own, with a label of 0 and 1 and a split by time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from components.datasets.definition import TABLES, LabelledRows
from components.datasets.tabular.fitted import SERVED_SCHEMA
from components.datasets.tabular.guessed_columns import FEW, TIME, GuessedColumn, guessed, has_comma, placeholders
from components.datasets.tabular.raw_files import FILENAME, read_schema
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.settings_file import parse_yaml
from components.workflows.partitions import is_partition
from components.workflows.tables import Layout, Stated, batches, columns_of, delimiter_of, is_parquet
from components.workflows.values import DEFAULT_MISSING, numbers

# Rows that are looked at.
_ROWS = 100_000
# Names of labels, the most telling ones first.
_LABELS = ("label", "target", "clicked", "click", "bought", "converted", "y", "class")
# The negative one of two values of a label.
_NEGATIVE = ("no", "n", "false", "f", "off", "0", "-1", "negative", "neg", "none")
_STATED = Stated("the schema", "or state quoting: none in the schema", "list the columns under names in the schema")
_SERVED_AT = "served_at"
# Newest share of the rows, which tests.
_TEST_SHARE = 0.2
# Entries that say how the first tables were written; these are parquet.
_OF_FILES = ("files", "format", "delimiter", "quoting", "longest_record", "names")


def first_schema(path: Path, label: str) -> str:
    """The text of a schema for a table like ``path``.

    Args:
        label: column of the label; empty guesses it.

    Raises:
        KfrecError: the file is no table, has no column ``label``, or no column that may be the label.
    """
    delimiter = "," if is_parquet(path, Layout(",", (), ())) else delimiter_of(path, _STATED)
    names = columns_of(path, Layout(delimiter, (), ()), _STATED)
    layout = Layout(delimiter, (), tuple(names))
    read, rows, refused = [], 0, 0
    for batch in batches(path, layout, _STATED):
        read.append(batch.rows)
        rows += len(batch.rows)
        refused += len(batch.bad)
        if rows >= _ROWS:
            break
    if refused and not rows:
        raise KfrecError(
            f"{path}: its first line has {len(names)} value{'' if len(names) == 1 else 's'}, and all later ones have "
            "another number; remove what stands above the names of the columns"
        )
    table = pa.Table.from_batches(read).combine_chunks() if read else None
    if table is None or not rows:
        raise KfrecError(f"{path}: has no rows; give a table with some")
    values = {name: table[name].combine_chunks() for name in names}
    missing = (*DEFAULT_MISSING, *placeholders(values.values()))
    decimal = "," if any(has_comma(column, missing) for column in values.values()) else "."
    columns = {name: guessed(name, column, missing, decimal) for name, column in values.items()}
    target = _label(path, columns, label)
    time = next((name for name, column in columns.items() if column.why == TIME and name != target.name), None)
    if not any(column.entry for column in columns.values() if column.name not in (target.name, time)):
        raise KfrecError(
            f"{path}: no column but the label {target.name!r} is worth learning from, since each has one value, or "
            "another one in nearly every row; give a table with features, and names in the first line only"
        )
    head = _layout(_of_these_columns(path, layout), delimiter, decimal, missing)
    return "".join(f"{line}\n" for line in (*_title(path), *head, *_lines(columns, target, time, decimal)))


def _title(path: Path) -> Iterator[str]:
    yield f"# A first schema of {path.name}, guessed from its first rows: read it, and correct roles and split."
    yield "# Drop what is not known when the model is asked. docs/bring-your-own-data.md explains every line."


def _layout(files: Sequence[str], delimiter: str, decimal: str, missing: Sequence[str]) -> Iterator[str]:
    if files:
        yield f"files: {_flow(files)}    # other tables beside it lack some of the columns"
    if delimiter != ",":
        yield f"delimiter: {_flow(delimiter)}"
    if decimal != ".":
        yield f"decimal: {_flow(decimal)}"
    if len(missing) > len(DEFAULT_MISSING):
        yield f"missing: {_flow(missing)}    # {' '.join(missing[len(DEFAULT_MISSING) :])} stands for a missing value"


def _lines(columns: dict[str, GuessedColumn], target: GuessedColumn, time: str | None, decimal: str) -> Iterator[str]:
    given, why = _positive(target, decimal)
    if target.text.null_count:
        given["missing"] = "drop"
        why = f"{why}{', and ' if why else ''}rows without a label are left out"
    yield f"label: {_flow({'column': target.name, **given})}" + (f"    # {why}" if why else "")
    if time is not None:
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
        yield f"  {_flow(name)}: {_flow(column.entry)}" + (f"    # {column.why}" if column.why else "")
    if dropped:
        yield "drop:"
        for name, why in dropped:
            yield f"  - {_flow(name)}    # {why}"


def _label(path: Path, columns: dict[str, GuessedColumn], named: str) -> GuessedColumn:
    if named:
        if named not in columns:
            raise KfrecError(f"{path}: has no column {named!r}; it has {', '.join(columns)}{_without_header(columns)}")
        if columns[named].text.null_count == len(columns[named].text):
            raise KfrecError(f"{path}: column {named!r} has no value to predict in the first rows; name another label")
        return columns[named]
    lower = {name.lower(): column for name, column in reversed(columns.items())}
    by_name = [lower[name] for name in _LABELS if name in lower and lower[name].entry]
    binary = [column for column in columns.values() if column.is_binary]
    for found in (*(column for column in by_name if column.is_binary), *by_name, *binary[-1:]):
        return found
    raise KfrecError(
        f"{path}: no column has the values 0 and 1 alone, or is called {' or '.join(_LABELS[:4])}; name the label with "
        "--label COLUMN. A table of users, items and times without a label is for kfrec run --dataset events"
        f"{_without_header(columns)}"
    )


def _without_header(names: Iterable[str]) -> str:
    """A hint if the first line of a table may be a row."""
    has_number = any(re.fullmatch(r"[+-]?\d+(\.\d+)?", name) for name in names)
    return ". If its first line is a row, write a line with the columns' names above it" if has_number else ""


def _positive(target: GuessedColumn, decimal: str) -> tuple[dict[str, object], str]:
    """Which values of a label are positive, and a remark."""
    if target.is_binary:
        return {}, ""
    counted = pc.value_counts(target.text.drop_null()).to_pylist()
    if target.entry.get("role") == "numeric" and len(counted) > FEW:
        median = float(np.nanmedian(numbers(target.text, (), decimal)[0]))
        return {"above": median}, "positive above the median; number: true in its place is for a regression"
    rest = [each for each in counted if str(each["values"]).lower() not in _NEGATIVE]
    if not (len(counted) == 2 and len(rest) == 1):
        rest = counted
    return {"equals": min(rest, key=lambda each: each["counts"])["values"]}, "the positive value, or above: NUMBER"


def _of_these_columns(path: Path, layout: Layout) -> list[str]:
    """The names of ``path`` and the tables beside it that have its columns, if others do not; else none."""
    if is_partition(path.parent.name):
        return []
    tables = sorted(each for each in path.parent.iterdir() if each.is_file() and TABLES.matches(each.name))
    alike = [table.name for table in tables if table == path or _has_columns(table, layout)]
    return alike if len(alike) < len(tables) else []


def _has_columns(path: Path, layout: Layout) -> bool:
    try:
        return set(layout.read) <= set(columns_of(path, Layout(layout.delimiter, (), ()), _STATED))
    except KfrecError:
        return False


def _flow(entry: object) -> str:
    """A value of YAML in one line."""
    held = list(entry) if isinstance(entry, tuple) else entry
    text = yaml.safe_dump([held], default_flow_style=True, sort_keys=False, width=float("inf"), allow_unicode=True)
    return str(text).strip()[1:-1]


def labelled_rows(spec: FeatureSpec, columns: Collection[str]) -> LabelledRows:
    """See ``components.datasets.definition.DatasetDefinition.labelled_rows``."""
    path = spec.folder / SERVED_SCHEMA
    text = path.read_text()
    schema, body = read_schema(str(path), text), parse_yaml(str(path), text)
    kept = {name: value for name, value in body.items() if name not in _OF_FILES}
    group = schema.group.column if schema.group else ""
    kept |= {
        "columns": {name: entry for name, entry in body["columns"].items() if name in (*columns, group)},
        "label": {"column": schema.label.column},
        "split": {"by": "time", "column": _SERVED_AT, "share": _TEST_SHARE},
        "drop": ["*"],
    }
    return LabelledRows(schema.label.column, _SERVED_AT, group, {FILENAME: yaml.safe_dump(kept, sort_keys=False)})
