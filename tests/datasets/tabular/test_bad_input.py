"""Each kind of bad input gives one line that names the file and the remedy, and leaves the earlier output alone."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import zipfile
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt
from components.errors import KfrecError
from components.progress import EVENTS, parse_event
from components.workflows.values import texts
from tests.datasets.tabular.tables import (
    CSV,
    SCHEMA,
    made,
    preprocess,
    raw_folder,
    samples,
    spec,
    vocabulary,
    with_columns,
)
from tests.preprocess import running

Warnings = Callable[[], list[str]]


@pytest.fixture
def warnings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Warnings:
    """What ``kfrec run`` was told to warn of since the last call."""
    monkeypatch.setenv(EVENTS, "1")

    def told() -> list[str]:
        events = [parse_event(line) for line in capsys.readouterr().out.splitlines()]
        return [event["message"] for event in events if event and event["kfrec"] == "warning"]

    return told


def error_of(folder: Path, tables: Any = CSV, schema: Any = SCHEMA, **parameters: Any) -> str:
    tables = {"table.csv": tables} if isinstance(tables, str | bytes) else tables
    raw = raw_folder(folder / "raw", tables, schema)
    return running.error_of(raw, folder / "parquet", dataset="tabular", **parameters)


def _schema(**changed: Any) -> dict[str, Any]:
    return {name: value for name, value in {**SCHEMA, **changed}.items() if value is not None}


def _column(**treatment: Any) -> dict[str, Any]:
    return with_columns(city=treatment)


SCHEMAS: dict[str, tuple[Any, str]] = {
    "not YAML": ("label: [", "schema.yaml: not YAML"),
    "a list": ("- label", "schema.yaml: ['label'] is not a mapping"),
    "no label": (_schema(label=None), "has no label; add it"),
    "no split": (_schema(split=None), "has no split; add it"),
    "no columns": (_schema(columns={}), "columns: {} is empty"),
    "an unknown entry": (_schema(colums={}), "unknown parameter colums: did you mean columns?"),
    "an entry that is like none": (_schema(xyz={}), "unknown parameter xyz: there are label, split, columns, "),
    "an unknown role": (_column(role="number"), "columns: city: role: 'number' must be one of numeric, categorical"),
    "no role": (_column(bins=3), "columns: city: has no role; add it"),
    "an unknown treatment": (_column(role="numeric", buckets=3), "columns: city: numeric: unknown parameter buckets"),
    "too many bins": (_column(role="numeric", bins=5000), "bins: 5000 must be at most 1024"),
    "one bin": (_column(role="numeric", bins=1), "city: bins is 1; give at least 2"),
    "no feature of a number": (
        _column(role="numeric", number=False, quantile=False),
        "number and quantile are false without bins",
    ),
    "a bucket too many": (_column(role="categorical", buckets=2**31), "buckets: 2147483648 must be at most"),
    "no longest": (_column(role="multihot"), "columns: city: multihot: has no longest; add it"),
    "a negative frequency": (_column(role="categorical", at_least=-1), "at_least: -1 must be at least 1"),
    "only a group": (_column(role="group"), "none is a feature"),
    "two groups": (
        with_columns(city={"role": "group"}, tags={"role": "group"}, price={"role": "numeric"}),
        "city and tags are both of the role group",
    ),
    "the label among the columns": (with_columns(bought={"role": "numeric"}), "bought is the label; take it out"),
    "a column of no table": (with_columns(town={"role": "categorical"}), "table.csv: has no column 'town'"),
    "a label of no table": (_schema(label={"column": "sold"}), "table.csv: has no column 'sold'"),
    "a dropped column of no table": (_schema(drop=["sold"]), "table.csv: has no column 'sold'"),
    "a dropped column in use": (_schema(drop=["city"]), "drop: city is used"),
    "a column without a role": (_schema(columns={"price": {"role": "numeric"}}), "column 'city' has no role in"),
    "two features of one name": (
        with_columns(**{"a b": {"role": "categorical"}, "a-b": {"role": "categorical"}}),
        "a b and a-b both make a feature a_b",
    ),
    "two comparisons": (_schema(label={"column": "price", "above": 1, "equals": 2}), "above and equals are given"),
    "an unknown split": (_schema(split={"by": "month"}), "split: by: 'month' must be one of files, column"),
    "a share above 1": (_schema(split={"by": "random", "share": 1.5}), "share: 1.5 must be below 1"),
    "a time without a share": (_schema(split={"by": "time", "column": "month"}), "needs either share or since"),
    "an unknown split value": (
        _schema(split={"by": "column", "column": "month", "test": [3], "train": [1]}),
        "split: column month is '2' in a row, which none of train, test lists",
    ),
    "a split value that is nowhere": (
        _schema(split={"by": "column", "column": "month", "test": [3, 13]}),
        "split: test: no row has 13 in column month",
    ),
    "a since that is no time": (
        _schema(split={"by": "time", "column": "month", "since": "May"}),
        "since: 'May' is not a time",
    ),
    "words for times": (
        _schema(split={"by": "time", "column": "city", "share": 0.5}, drop=["*"]),
        "not rows of the schema",
    ),
    "a file pattern that fits none": (_schema(files=["*.tsv"]), "files: *.tsv matches no table in"),
    "a test file that is none": (_schema(split={"by": "files", "test": ["new*"]}), "new* matches no table in"),
    "only test files": (_schema(split={"by": "files", "test": ["*"]}), "none is left to train on"),
    "a validation file that is none": (
        _schema(split={"by": "files", "test": ["table*"], "validation": ["*z"]}),
        "validation: *z matches no table in",
    ),
    "a value of two splits": (
        _schema(split={"by": "column", "column": "month", "test": [3], "validation": [2, 3]}),
        "split: 3 is in both test and validation; take it out of one of them",
    ),
    "a validation value that is nowhere": (
        _schema(split={"by": "column", "column": "month", "test": [3], "validation": [13]}),
        "split: validation: no row has 13 in column month",
    ),
    "two cuts of one": (
        _schema(split={"by": "time", "column": "month", "share": 0.2, "validation_share": 0.1, "validation_since": 2}),
        "by: time has validation_share and validation_since; give one of them",
    ),
    "shares of everything": (
        _schema(split={"by": "random", "share": 0.6, "validation_share": 0.4}),
        "split: share and validation_share add up to 1; leave rows to train on",
    ),
    "a validation after the test": (
        _schema(split={"by": "time", "column": "month", "since": 2, "validation_since": 3}),
        "split: validation_since: 3 is not before the first test row; give an earlier time",
    ),
    "a test and train file": (
        _schema(split={"by": "files", "test": ["*"], "train": ["t*"]}),
        "matches both train and test",
    ),
    "labels of one kind": (
        {**with_columns(price={"role": "numeric"}), "label": {"column": "month", "equals": "May"}},
        "0 of 4 rows of the train",
    ),
    "labels that are not binary": (
        {**with_columns(city={"role": "categorical"}), "label": {"column": "tags"}},
        "not 0 or 1",
    ),
    "a label of text that is to be a number": (
        {**with_columns(price={"role": "numeric"}), "label": {"column": "city", "number": True}},
        "column city is 'Rome': not a number that float32 holds",
    ),
    "a label that is a number and compared": (
        {**with_columns(city={"role": "categorical"}), "label": {"column": "price", "number": True, "above": 1.0}},
        "label: above and number are given; give one of them",
    ),
    "no frequent value": (_column(role="categorical", at_least=9), "city: no value occurs 9 times among"),
    "text for a number": (_column(role="numeric"), "column city is 'Rome': not a finite number"),
}  # fmt: skip


@pytest.mark.slow
def test_files_without_rows_are_skipped_and_counted(tmp_path: Path, warnings: Warnings) -> None:
    header = CSV.partition("\n")[0]
    made(tmp_path, {"day1.csv": CSV, "day2.csv": b"", "day3.csv": f"{header}\n"})
    assert "2 of 3 files have no rows: day2.csv, day3.csv" in warnings()


def test_equal_rows_are_duplicates_only_where_a_time_tells_rows_apart(tmp_path: Path, warnings: Warnings) -> None:
    made(tmp_path / "alike", LONG, _schema(split={"by": "random", "share": 0.3}, drop=["*"]))
    assert not any("duplicate rows" in message for message in warnings())
    made(tmp_path / "timed", LONG, _schema(split={"by": "time", "column": "month", "share": 0.3}))
    assert any("the share of duplicate rows is" in message for message in warnings())


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_wrong_schema_is_one_line(tmp_path: Path, name: str) -> None:
    schema, told = SCHEMAS[name]
    assert told in error_of(tmp_path, schema=schema)


LONG = "bought,price,city,tags,month\n" + "1,1.5,Rome,a,1\n0,2,Rome,b,1\n1,1,Rome,a,3\n0,2,Rome,b,3\n" * 50


TABLES: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({"table.csv": b""}, "table.csv: no rows in it"),
    "a header alone": ({"table.csv": "bought,price,city,tags,month\n"}, "table.csv: no rows in it"),
    "utf-16": ({"table.csv": CSV.encode("utf-16")}, "table.csv: is UTF-16, not UTF-8"),
    "latin-1": ({"table.csv": CSV.replace("Rome", "Orléans").encode("latin-1")}, "table.csv: not UTF-8"),
    "binary": ({"table.csv": bytes(range(256)) * 9}, "table.csv: not UTF-8"),
    "two columns of one name": ({"table.csv": CSV.replace("city", "price")}, "has two columns 'price'"),
    "a row of equal numbers in place of names": (
        {"table.csv": CSV.replace("bought,price,city,tags,month", "7,7,Rome,a,b")},
        "has two columns '7'; rename one; if its first line is a row, list the columns under names",
    ),
    "another delimiter": ({"table.csv": CSV.replace(",", ";")}, "has no column 'bought'"),
    "a gzip cut off": ({"table.csv.gz": gzip.compress(LONG.encode())[:-9]}, "table.csv.gz: damaged, truncated"),
    "no gzip": ({"table.csv.gz": LONG.encode()}, "table.csv.gz: damaged, truncated or not a gzip file"),
    "no zip": ({"table.csv.zip": LONG.encode()}, "table.csv.zip: damaged, truncated or not a zip file"),
    "no parquet": ({"table.parquet": LONG.encode()}, "table.parquet: damaged, truncated or not a parquet file"),
    "there twice": ({"t.csv": LONG, "t.csv.gz": gzip.compress(LONG.encode())}, "t.csv: also exists as t.csv.gz"),
    "a column too few": (
        {"table.csv": LONG.replace("1,1.5,Rome,a,1\n", "1,1.5,Rome,a\n")},
        "table.csv: 50 of 200 lines are not rows of the schema, the first is line 2 (4 values, not 5)",
    ),
    "a word for a label": ({"table.csv": LONG.replace("0,2,", "no,2,")}, "column bought is 'no': not 0 or 1"),
    "no label": ({"table.csv": LONG.replace("0,2,", ",2,")}, "column bought is '': no label"),
    "infinite": ({"table.csv": LONG.replace("1.5", "inf")}, "column price is 'inf': not a finite number"),
    "lists for ids": (
        {"table.parquet": pa.table({"bought": [0, 1], "price": [1.0, 2.0], "city": [["a"], ["b"]], "tags": ["", ""],
                                    "month": [1, 3]})},
        "column city is of the type list<",
    ),
    "fractions for ids": (
        {"table.parquet": pa.table({"bought": [0, 1] * 4, "price": [1.0, 2.0] * 4, "city": [1.5, 2.0] * 4,
                                    "tags": [""] * 8, "month": [1, 1, 3, 3] * 2})},
        "columns: city has the role categorical, but holds numbers such as 1.5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_table_is_one_line(tmp_path: Path, name: str) -> None:
    tables, told = TABLES[name]
    assert told in error_of(tmp_path, tables)


def test_fractions_in_a_csv_column_of_ids_are_refused(tmp_path: Path) -> None:
    assert "price has the role categorical, but holds numbers such as 1.5; give it the role numeric" in error_of(
        tmp_path, LONG, with_columns(price={"role": "categorical"})
    )


def test_versions_with_a_dot_are_text(tmp_path: Path) -> None:
    made(tmp_path, LONG.replace("1.5", "v1.5"), with_columns(price={"role": "categorical"}))


def test_few_bad_rows_are_kept_aside(tmp_path: Path) -> None:
    text = LONG + "1,much,Rome,a,1\n1,2\n"
    raw = raw_folder(tmp_path / "raw", {"table.csv": text}, SCHEMA)
    counts = preprocess(raw, tmp_path / "parquet")
    assert (counts["train"], counts["rows"], counts["malformed_rows"]) == (100, 202, 2)
    lines = [json.loads(line) for line in (tmp_path / "parquet/quarantine/table.csv.jsonl").read_text().splitlines()]
    assert [line["line"] for line in lines] == [202, 203]
    assert "column price is 'much'" in lines[0]["reason"] and lines[1]["text"] == "1,2"


GROUPS: dict[str, Any] = {
    "label": {"column": "y"},
    "split": {"by": "files", "test": ["b.csv"]},
    "columns": {"x": {"role": "numeric"}, "g": {"role": "group"}},
}
A, B = "y,x,g\n1,1,one\n0,2,one\n1,1,two\n0,1,two\n", "y,x,g\n1,1,two\n0,2,two\n"


def test_a_group_over_two_files_is_refused(tmp_path: Path) -> None:
    assert "b.csv: 1 groups of column g are also in a.csv" in error_of(tmp_path, {"a.csv": A, "b.csv": B}, GROUPS)


def test_a_group_over_two_splits_is_refused(tmp_path: Path) -> None:
    schema = {**GROUPS, "columns": {"x": {"role": "numeric"}, "g": {"role": "group", "across_files": True}}}
    told = error_of(tmp_path, {"a.csv": A, "b.csv": B}, schema)
    assert "split: 1 groups of column g, such as two, lie in both train and test; split by random" in told


def test_a_group_over_two_files_of_a_split_can_be_allowed(tmp_path: Path) -> None:
    schema = {**GROUPS, "columns": {"x": {"role": "numeric"}, "g": {"role": "group", "across_files": True}}}
    made(tmp_path, {"a.csv": A, "a2.csv": A, "b.csv": B.replace("two", "three")}, schema)


def test_a_missing_schema_is_named(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", {"table.csv": CSV}, SCHEMA)
    (raw / "schema.yaml").unlink()
    adopt(raw)
    with pytest.raises(
        KfrecError, match=r"raw/schema.yaml: missing beside the tables; kfrec init-schema writes a first one"
    ):
        preprocess(raw, tmp_path / "parquet")
    with pytest.raises(KfrecError, match=r"elsewhere.yaml: parameter table_schema: no such file"):
        preprocess(raw, tmp_path / "parquet", schema=str(tmp_path / "elsewhere.yaml"))


def test_a_schema_elsewhere_is_read_and_kept(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", {"table.csv": CSV}, "nonsense: 1")
    other = raw_folder(tmp_path / "other", {}, SCHEMA) / "schema.yaml"
    preprocess(raw, tmp_path / "parquet", schema=str(other))
    assert (tmp_path / "parquet" / "schema.yaml").read_text() == other.read_text()


KEPT: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing there": (lambda old: old.rename(old.with_name("moved")), "no vocabulary here"),
    "no numbers": (lambda old: (old / "vocabulary/numbers.json").unlink(), "numbers.json"),
    "no JSON": (lambda old: (old / "vocabulary/numbers.json").write_text("{"), "not what this kfrec writes"),
    "another format": (
        lambda old: (old / "vocabulary/numbers.json").write_text('{"format": 9}'),
        "not what this kfrec",
    ),
    "no vocabulary": (lambda old: (old / "vocabulary/city.parquet").unlink(), "city.parquet"),
    "other ids": (
        lambda old: pq.write_table(pa.table({"id": [3, 4], "value": ["a", "b"]}), old / "vocabulary/city.parquet"),
        "its ids are not consecutive from 1",
    ),
    "a value twice": (
        lambda old: pq.write_table(pa.table({"id": [1, 2], "value": ["a", "a"]}), old / "vocabulary/city.parquet"),
        "a value is missing or duplicated",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_a_kept_workflow_that_is_damaged_is_one_line(tmp_path: Path, name: str) -> None:
    damage, told = KEPT[name]
    old = made(tmp_path / "old")
    (old / "_manifest.json").unlink()
    damage(old)
    (tmp_path / "new").mkdir()
    assert told in error_of(tmp_path / "new", workflow=str(old))


def test_a_workflow_of_another_schema_is_refused(tmp_path: Path) -> None:
    old = made(tmp_path / "old")
    schema = {**SCHEMA, "columns": {**SCHEMA["columns"], "price": {"role": "numeric", "log": True}}}
    (tmp_path / "new").mkdir()
    assert "was fitted for another schema (price differs)" in error_of(
        tmp_path / "new", schema=schema, workflow=str(old)
    )


_QUOTED = "bought,price,city,tags,month\n" + "\n".join(f"{n % 2},{n}.0,c{n % 3},a,{1 + n % 3}" for n in range(60))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {20: '1,1.0,"open,a,1'},
            "table.csv: a quote in the record of lines 20 to 61 is left open; close it, or state",
        ),
        (
            {20: '1,1.0,"open,a,1', 40: '0,2.0,close",b,2'},
            "table.csv: a quote in the record of lines 20 to 40 is left open; close it, or state",
        ),
    ],
    ids=["never closed", "closed much later"],
)
def test_a_quote_that_is_left_open_is_named_by_its_line(tmp_path: Path, changed: dict[int, str], message: str) -> None:
    lines = _QUOTED.split("\n")
    for number, line in changed.items():
        lines[number - 1] = line
    error = error_of(tmp_path, "\n".join(lines), malformed_limit=0.9)
    assert message in error and "quoting: none" in error


@pytest.mark.parametrize(
    "changed",
    [
        {20: '1,1.0,"open,a,1', 21: '0,2.0,"closed",b,2'},
        {20: '1,1.0,"open,a,1', 22: '0,2.0,"open,b,2'},
        {60: '1,1.0,"open,a,1'},
        {61: '1,1.0,a,1,"3'},
    ],
    ids=["a closed one in the next line", "another open one", "before the last line", "in the last"],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_a_quote_that_is_left_open_swallows_no_row(tmp_path: Path, changed: dict[int, str], end: str) -> None:
    lines = _QUOTED.split("\n")
    for number, line in changed.items():
        lines[number - 1] = line
    assert f"a quote in the record of lines {min(changed)} to " in error_of(
        tmp_path, end.join(lines), malformed_limit=0.9
    )


def test_quotes_that_a_backslash_escapes_are_stated(tmp_path: Path) -> None:
    escaped = _QUOTED.replace("c1", r'"say \"hi\", all"')
    assert "line 3 has quotes that a backslash escapes" in error_of(tmp_path / "one", escaped)
    output = made(tmp_path / "other", escaped, _schema(quoting="backslash"))
    assert vocabulary(output, "city") == ["c0", 'say "hi", all']
    folders = _QUOTED.replace("c1", r'"C:\disk\"')
    assert vocabulary(made(tmp_path / "folders", folders), "city") == ["C:\\disk\\", "c0"]


def test_an_endless_line_is_refused(tmp_path: Path) -> None:
    endless = {"table.csv.gz": gzip.compress(_QUOTED.encode() + bytes(18 << 20), 1)}
    error = error_of(tmp_path, endless, longest_line=8)
    assert "table.csv.gz: line 61 is longer than 8 MiB; end its lines, or raise longest_line" in error


def test_each_line_of_a_record_with_a_wrong_number_of_values_is_malformed(tmp_path: Path) -> None:
    lines = _QUOTED.split("\n")
    lines[19:23] = '1,1.0,"open', "a", "b", 'close"'
    assert "4 of 60 lines are not rows" in error_of(tmp_path, "\n".join(lines), malformed_limit=0.05)


def test_a_quote_may_be_a_character_like_others_and_text_may_span_lines(tmp_path: Path) -> None:
    bare = _QUOTED.replace("c1", '5" disk')
    output = made(tmp_path / "bare", bare, _schema(quoting="none"))
    assert '5" disk' in vocabulary(output, "city") and len(samples(output, "train")["city"]) == 40
    several = _QUOTED.replace("c1", '"two\r\n\nlines, and a ""quote"""')
    output = made(tmp_path / "several", several)
    assert vocabulary(output, "city") == ["c0", 'two\r\n\nlines, and a "quote"']
    assert len(samples(output, "train")["city"]) == 40


def _part(**columns: Any) -> pa.Table:
    """A table of the schema with other columns."""
    values = {"bought": [1, 0] * 3, "price": [1.0, 2.0] * 3, "city": ["a", "b"] * 3, "tags": [["x"], ["y"]] * 3}
    return pa.table({**values, "month": [1, 1, 2, 2, 3, 3], **columns})


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("city", pa.array([None] * 6, pa.string())),
        ("city", pa.nulls(6)),
        ("price", pa.array([None] * 6, pa.float64())),
        ("price", pa.nulls(6)),
        ("tags", pa.array([None] * 6, pa.list_(pa.string()))),
        ("tags", pa.array([[]] * 6, pa.list_(pa.string()))),
    ],
    ids=str,
)
def test_a_column_without_any_value_is_named(tmp_path: Path, column: str, values: pa.Array) -> None:
    error = error_of(tmp_path, {"table.parquet": _part(**{column: values})})
    assert f"columns: {column}: no row has a " in error and "drop the column" in error


def test_a_part_of_the_rows_may_be_without_a_value(tmp_path: Path) -> None:
    nothing = _part(city=pa.nulls(6), tags=pa.array([[]] * 6, pa.list_(pa.string())), price=pa.nulls(6))
    output = made(tmp_path, {"a.parquet": _part(), "b.parquet": nothing}, rows_per_partition=6)
    found = samples(output, "train")
    assert found["city"] == [1, 2, 1, 2, 0, 0, 0, 0] and found["tags"] == [[1], [2], [1], [2], [], [], [], []]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"1.0,True", b"1,true"),
        (pa.table({"id": pa.array([1], pa.int32()), "flag": [True]}), b"1.00,TRUE"),
        (pa.table({"id": pa.array([1.0]), "flag": [True]}), b"1.0,True"),
        (pa.table({"id": pa.array([Decimal("1.00")]), "flag": [True]}), b"1,true"),
    ],
    ids=["texts", "an integer", "a float", "a decimal"],
)
def test_one_value_has_one_id_in_files_of_all_types(tmp_path: Path, one: Any, other: bytes) -> None:
    def table(content: Any, month: int) -> tuple[str, Any]:
        if isinstance(content, bytes):
            rows = b"".join(content + b",%d,%d\n" % (n % 2, month) for n in range(4))
            return f"{month}.csv", b"id,flag,bought,month\n" + rows
        whole = pa.concat_tables([content] * 4)
        whole = whole.append_column("bought", pa.array([0, 1, 0, 1])).append_column("month", pa.array([month] * 4))
        return f"{month}.parquet", whole

    columns = with_columns(id={"role": "categorical"}, flag={"role": "categorical"})
    tables = dict([table(one, 1), table(other, 3)])
    output = made(tmp_path, tables, columns)
    assert vocabulary(output, "id") == ["1"] and vocabulary(output, "flag") == ["true"]
    assert samples(output, "test")["id"] == samples(output, "train")["id"] == [1] * 4
    assert samples(output, "test")["flag"] == [1] * 4


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [
        (pa.array([date(2024, 1, 1)]), pa.array([datetime(2024, 1, 1)], pa.timestamp("ns")), "2024-01-01"),
        (pa.array([datetime(2024, 1, 1)], pa.timestamp("us", "UTC")), pa.array(["2024-01-01 00:00:00"]), "2024-01-01"),
        (
            pa.array([datetime(2024, 1, 1, 9, 30)], pa.timestamp("us")),
            pa.array([datetime(2024, 1, 1, 9, 30)], pa.timestamp("ms")),
            "2024-01-01 09:30:00",
        ),
        (pa.array([Decimal("3.50"), Decimal("4.00")][:1]), pa.array(["3.5"]), "3.5"),
    ],
    ids=["a date", "midnight", "a time", "a decimal"],
)
def test_an_id_has_one_text_by_its_value(one: pa.Array, other: pa.Array, value: str) -> None:
    assert texts(one, ()).to_pylist() == texts(other, ()).to_pylist() == [value]


def test_a_number_that_stands_for_a_missing_value_does_in_files_of_all_types(tmp_path: Path) -> None:
    schema = _schema(missing=["", "-999"])
    csv = "bought,price,city,tags,month\n1,-999.0,a,x,1\n0,2.0,b,y,1\n1,-999,a,x,3\n0,3.0,b,y,3\n"
    output = made(tmp_path, {"a.parquet": _part(price=[-999.0, 2.0] * 3), "b.csv": csv}, schema)
    assert samples(output, "train")["price_filled"] == [1.0, 0.0] * 3


@pytest.mark.parametrize(
    ("column", "treatment", "values"),
    [
        ("city", {"role": "categorical"}, pa.array([2.0**53, 1, 1, 1, 1, 1])),
        ("city", {"role": "categorical"}, pa.array(["x\0a", "b", "b", "b", "b", "b"])),
        ("city", {"role": "group"}, pa.array([2.0**53, 1, 1, 1, 1, 1])),
        ("city", {"role": "group"}, pa.array(["x\0a", "b", "b", "b", "b", "b"])),
        ("tags", {"role": "multihot", "longest": 2}, pa.array([[1.0, 2.0**53], None, [], [1.0], [2.0], [3.0]])),
        ("tags", {"role": "multihot", "longest": 2}, pa.array([["b", "x\0a"], None, [], ["c"], ["d"], ["e"]])),
        ("tags", {"role": "multihot", "longest": 2}, pa.array(["b|x\0a", "", "c", "d", "e", "f"])),
    ],
)
def test_ids_that_cannot_be_told_apart_are_malformed(
    tmp_path: Path, column: str, treatment: dict[str, Any], values: pa.Array
) -> None:
    schema = with_columns(price={"role": "numeric"}, **{column: treatment})
    error = error_of(tmp_path, {"table.parquet": _part(**{column: values})}, schema, malformed_limit=0.1)
    message = r"a float, beyond 2\*\*53; store such ids as integers or as text|text with a NUL character"
    assert re.search(f"1 of 6 lines are not rows .* line 1 .column {column} is .*({message})", error)


def test_long_ids_that_a_spreadsheet_rounded_are_refused(tmp_path: Path) -> None:
    error = error_of(tmp_path, CSV.replace("Rome", "1.23457E+12").replace("Oslo", "7").replace("Bonn", "8"))
    assert "city has the role categorical, but holds numbers such as 1.23457E+12" in error
    assert "store ids as whole numbers or as text" in error


@pytest.mark.parametrize(
    ("decimal", "value", "written"),
    [
        (".", "1,234", "1234.5"),
        (".", "1,234.5", "1234.5"),
        (".", "1 234", "1234.5"),
        (".", "12.5 %", "1234.5"),
        (".", "$1,234", "1234.5"),
        (",", "1.234", "1234,5"),
        (",", "1.234,5", "1234,5"),
        (",", "2.5", "1234,5"),
    ],
)
def test_a_separator_of_thousands_is_no_fraction(tmp_path: Path, decimal: str, value: str, written: str) -> None:
    error = error_of(tmp_path, CSV.replace("3.0", f'"{value}"').replace("1.0", "1"), _schema(decimal=decimal))
    assert (
        f"column price is '{value}': a number with separators, or a sign such as % or $; write it as {written}" in error
    )


@pytest.mark.parametrize("values", [pa.array([[1]] * 6), pa.array([{"a": 1}] * 6)], ids=["a list", "a struct"])
@pytest.mark.parametrize("column", ["bought", "month", "city"])
def test_a_label_a_split_and_a_group_are_one_value(tmp_path: Path, column: str, values: pa.Array) -> None:
    schema = with_columns(price={"role": "numeric"}, city={"role": "group"})
    error = error_of(tmp_path, {"table.parquet": _part(**{column: values})}, schema)
    assert re.search(f"column {column} is of the type (list|struct)<.*, not one value a row; the ", error)


def test_values_of_a_schema_are_compared_as_the_columns_are(tmp_path: Path) -> None:
    csv = "bought,price,month\n" + "True,1.0,TRUE\nFalse,2.0,False\nTrue,3.0,False\nFalse,4.0,true\n"
    schema = {**with_columns(price={"role": "numeric"}), "label": {"column": "bought", "equals": "True"}}
    output = made(tmp_path, csv, {**schema, "split": {"by": "column", "column": "month", "test": ["True"]}})
    assert samples(output, "test")["bought"] == [1, 0] and samples(output, "train")["bought"] == [0, 1]


def test_a_split_without_both_labels_is_at_fault_where_the_others_have_both(tmp_path: Path) -> None:
    error = error_of(tmp_path, {"table.parquet": _part(bought=[1, 0, 1, 0, 0, 0])})
    assert "split: all 2 rows of the test split are negative by column bought" in error


def test_a_number_beyond_float32_is_malformed_and_a_large_unscaled_one_is_a_warning(
    tmp_path: Path, warnings: Warnings
) -> None:
    huge = {"table.parquet": _part(price=[1e300, 1.0, 1.0, 1.0, 1.0, 1.0])}
    error = error_of(tmp_path / "huge", huge, malformed_limit=0.1)
    assert "column price is 1e+300: a number that float32 does not hold" in error
    unscaled = with_columns(price={"role": "numeric", "scale": "none"})
    made(tmp_path / "large", {"table.parquet": _part(price=[1.7e18, 1.0, 2.0, 3.0, 4.0, 5.0])}, unscaled)
    (line,) = warnings()
    assert "columns: price has numbers up to 1.7e+18 and scale: none" in line


def _zip(**members: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


LIKE_OTHERS: dict[str, dict[str, Any]] = {
    "upper case": {"T.CSV": CSV},
    "upper case, gzip": {"T.CSV.GZ": gzip.compress(CSV.encode())},
    "a zip of a folder": {"t.csv.zip": _zip(**{"folder/t.csv": CSV, "folder/.DS_Store": "\0\1"})},
    "views": {"t.parquet": _part(city=pa.array(["a", "b"] * 3, pa.string_view()))},
    "a zip": {"archive.zip": _zip(**{"folder/t.csv": CSV, "folder/README.txt": "words"})},
    "columns without a name": {"t.csv": CSV.replace("\n", ",,\n")},
    "lists of bytes": {"t.parquet": _part(tags=pa.array([[b"x"], None] * 3))},
    "bytes": {"t.parquet": _part(city=pa.array([b"a", b"b"] * 3))},
    "lists of a fixed size": {"t.parquet": _part(tags=pa.array([["x"], ["y"]] * 3, pa.list_(pa.string(), 1)))},
}


@pytest.mark.slow
@pytest.mark.parametrize("tables", LIKE_OTHERS.values(), ids=LIKE_OTHERS)
def test_tables_in_other_shapes_are_read_like_others(tmp_path: Path, tables: dict[str, Any]) -> None:
    assert len(samples(made(tmp_path, tables, _schema(drop=["*"])), "train")["city"]) == 4


OTHER_SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "Excel": ({"t.csv": _zip(a="b")}, "t.csv: is a zip archive, such as Excel's, whatever its name says; convert"),
    "gzip": ({"t.csv": gzip.compress(CSV.encode())}, "t.csv: is gzip, whatever its name says"),
    "bytes that are no text": ({"t.parquet": _part(city=pa.array([b"\xff"] * 6))}, "column 'city' of the type binary"),
    "no header": ({"t.csv": "1,1.0,5,6,1\n0,2.0,7,8,2\n"}, "its first line has numbers in place of names"),
    "a decimal comma": ({"t.csv": CSV.replace("3.0", '"3,5"')}, "or state decimal: ','"),
    "lists as Python writes them": (
        {"t.csv": CSV.replace("a|b,1", "\"['a', 'b']\",1")},
        "a list as programs write it; write the values with | between them",
    ),
    "lists as other programs write them": (
        {"t.csv": CSV.replace("a|b,1", '"{a,b}",1')},
        "a list as programs write it; write the values with | between them",
    ),
    "lists of bytes that are no text": (
        {"t.parquet": _part(tags=pa.array([[b"\xff"]] * 6))},
        "column 'tags' of the type",
    ),
    "xz": ({"t.csv": lzma.compress(CSV.encode())}, "t.csv: is xz, whatever its name says"),
    "UTF-16 without a mark": ({"t.csv": CSV.encode("utf-16-le")}, "t.csv: is UTF-16LE, not UTF-8"),
    "a row in place of the header": (
        {"t.csv": CSV.partition("\n")[2].replace("1.0", "NA").replace("a|b,1", "a|b,x")},
        "if its first line is a row, list the columns under names",
    ),
    "semicolons": (
        {"t.csv": CSV.replace(",", ";")},
        "the values seem to be separated by ';': state it as the delimiter",
    ),
    "a quote open in the header": (
        {"t.csv": CSV.replace("city", '"city', 1).replace(",Rome", ',"Rome', 1)},
        "a quote in the first line, before 'city,tags,month'",
    ),
    "a quote open from the header on": (
        {"t.csv": CSV.replace("city", '"city', 1)},
        "or a quote in its first line is left",
    ),
    "lists of lists": ({"t.parquet": _part(tags=pa.array([[["x"]]] * 6))}, "column tags is of the type list<"),
    "a struct": ({"t.parquet": _part(city=pa.array([{"a": 1}] * 6))}, "several values a row; flatten it into columns"),
    "a map": (
        {"t.parquet": _part(city=pa.array([[("a", 1)]] * 6, pa.map_(pa.string(), pa.int64())))},
        "column city is of the type map<string, int64",
    ),
}


@pytest.mark.parametrize(("tables", "message"), OTHER_SHAPES.values(), ids=OTHER_SHAPES)
def test_a_table_in_another_shape_is_named(tmp_path: Path, tables: dict[str, Any], message: str) -> None:
    assert message in error_of(tmp_path, tables)


def test_categories_that_are_lists_are_a_warning(tmp_path: Path, warnings: Warnings) -> None:
    made(tmp_path, CSV.replace("Oslo", "\"['a', 'b']\""))
    (line,) = warnings()
    assert "columns: city has lists as programs write them, such as ['a', 'b']" in line


def test_a_separator_that_never_occurs_is_a_warning(tmp_path: Path, warnings: Warnings) -> None:
    made(tmp_path / "one", CSV.replace("|", ";"))
    (line,) = warnings()
    assert "columns: tags: the separator '|' is in no row" in line
    made(tmp_path / "other", CSV)
    assert warnings() == []


def test_a_column_that_begins_with_a_digit_has_a_feature_that_is_a_name(tmp_path: Path) -> None:
    columns = with_columns(**{"1stFlrSF": {"role": "numeric"}, "2": {"role": "categorical"}})
    output = made(tmp_path, {"t.parquet": _part(**{"1stFlrSF": [1.0] * 6, "2": ["a"] * 6})}, columns)
    assert "column_2" in spec(output)["feature_spec"]
    assert all(name.isidentifier() for name in spec(output)["feature_spec"])
