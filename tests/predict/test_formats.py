"""Files of rows to score, as other programs write them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.errors import KfrecError
from components.inference.formats import rows_file

CSV = "age,city\n" + "".join(f"{number},c{number % 3}\n" for number in range(6))
ROWS: list[dict[str, object]] = [{"age": number, "city": f"c{number % 3}"} for number in range(6)]
JSON = "".join(json.dumps(row) + "\n" for row in ROWS)


def rows_of(folder: Path, name: str, content: str | bytes) -> list[dict[str, object]]:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return [row for batch in rows_file(folder / name).batches(4) for row in batch.to_pylist()]


def with_city(value: str | None) -> list[dict[str, object]]:
    """The rows with another value in place of c1."""
    return [{**row, "city": value} if row["city"] == "c1" else row for row in ROWS]


AS_TEXT = [{name: str(value) for name, value in row.items()} for row in ROWS]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("R.CSV", CSV, AS_TEXT),
        ("r.csv", "\ufeff" + CSV.replace("\n", "\r\n"), AS_TEXT),
        ("r.csv", CSV.replace("age,city", " age , city"), AS_TEXT),
        ("r.jsonl", "\ufeff" + JSON.replace("\n", "\n\ufeff", 1), ROWS),
        ("r.jsonl", JSON.replace('"c1"', "NaN"), with_city(None)),
        ("r.jsonl", JSON.replace("c1", "c\x01"), with_city("c\x01")),
        ("r.jsonl", '{"city": 3}\n{"city": "3"}\n', [{"city": "3"}] * 2),
        ("r.jsonl", '{"city": 18446744073709551616}\n{"city": 3}\n', [{"city": "18446744073709551616"}, {"city": "3"}]),
    ],
)  # fmt: skip
def test_rows_are_read_whatever_wrote_them(
    tmp_path: Path, name: str, content: str, expected: list[dict[str, object]]
) -> None:
    assert rows_of(tmp_path, name, content) == expected


@pytest.mark.parametrize("name", ["r.parquet", "r.jsonl"])
def test_rows_of_long_texts_come_a_few_at_a_time(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.inference.formats._LARGEST", 50_000)
    rows = [{"text": "x" * size} for size in [*[10_000] * 20, 90_000, *[10] * 20]]
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    else:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    batches = list(rows_file(tmp_path / name).batches(100))
    assert [row for batch in batches for row in batch.to_pylist()] == rows
    assert all(batch.nbytes <= 50_000 or len(batch) == 1 for batch in batches) and len(batches) < 20


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.csv", gzip.compress(CSV.encode(), mtime=0), "is gzip, whatever its name says; give it the suffix"),
        ("r.jsonl", gzip.compress(JSON.encode(), mtime=0), "is gzip, whatever its name says; give it the suffix"),
        ("r.csv", b"PK\x03\x04" * 9, "is a zip archive"),
        ("r.csv", CSV.encode("utf-16"), "is UTF-16, not UTF-8"),
        ("r.jsonl", JSON.encode("utf-16-le"), "is UTF-16LE, not UTF-8"),
        ("r.csv", CSV.replace(",", ";"), "seem to be separated by ';'; separate them by commas"),
        ("r.csv", CSV.replace("3,c0", '3,"c0'), "a quote in the record of lines 5 to . is left open"),
        ("r.csv", CSV.replace("5,c2", '5,"c2'), "a quote in the record of lines 7 to 7 is left open"),
        ("r.csv", CSV.replace("c1", r'"a \"b\" c"'), "line 3 has quotes that a backslash escapes"),
        ("r.csv", CSV.replace("city", '"city', 1), "or a quote in its first line is left open"),
        ("r.jsonl", json.dumps(ROWS), r"line 1 is a JSON array, not an object a line; .*jq -c '.\[\]'"),
        ("r.jsonl", json.dumps(ROWS[0], indent=1), "line 1 is not JSON .*; convert the file with jq -c ."),
        ("r.jsonl", JSON.replace("c1", r"\ud83d"), "column city holds text with a surrogate without its pair"),
        ("r.jsonl", '{"city": ["a"]}\n{"city": "3"}\n', "column city holds values of several types, lists among them"),
    ],
)
def test_rows_that_cannot_be_read_are_one_line(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(KfrecError, match=rf"{name}: .*{message}"):
        rows_of(tmp_path, name, content)


def test_two_columns_of_one_name_in_parquet_are_one_line(tmp_path: Path) -> None:
    ages = pa.array([1, 2])
    pq.write_table(pa.Table.from_arrays([ages, ages], names=["age", "age"]), tmp_path / "r.parquet")
    with pytest.raises(KfrecError, match=r"r\.parquet: has two columns 'age'; rename one"):
        list(rows_file(tmp_path / "r.parquet").batches(4))
