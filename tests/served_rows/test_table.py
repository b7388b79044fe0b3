"""The table of served rows: what a folder of several writers holds, and what is passed over."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.errors import KfrecError
from components.served_rows.schema import SCHEMA, file_of
from components.served_rows.table import days_of, read_served
from tests.fakes.object_stores import Place

MORNING, NEXT_DAY = datetime(2026, 11, 27, 9, 59, tzinfo=UTC), datetime(2026, 11, 28, 0, 0, tzinfo=UTC)


def row(**values: Any) -> dict[str, Any]:
    return {
        "request_id": "a", "row": 0, "time": MORNING, "model": "shop-ctr", "version": "3", "variant": "champion",
    } | values  # fmt: skip


def add(folder: Path, hour: datetime, writer: str, *rows: dict[str, Any]) -> None:
    file = folder / file_of(hour, writer, 1)
    file.parent.mkdir(exist_ok=True, parents=True)
    pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), file)


def ids(location: str, *days: date | None) -> list[str]:
    return [each for table in read_served(location, *days) for each in table["request_id"].to_pylist()]


def test_files_are_read_by_hour_and_those_that_are_not_complete_are_not(tmp_path: Path) -> None:
    add(tmp_path, NEXT_DAY, "w1", row(request_id="c", time=NEXT_DAY))
    add(tmp_path, MORNING, "w2", row(request_id="b"))
    add(tmp_path, MORNING, "w1", row(request_id="a", columns='{"user": "U1"}', probability=0.25))
    (tmp_path / "2026-11-27" / ".09-w3-000001.parquet.partial-7").write_bytes(b"PAR1")
    (tmp_path / "notes").mkdir()
    assert ids(str(tmp_path)) == ["a", "b", "c"]
    assert days_of(str(tmp_path)) == [date(2026, 11, 27), date(2026, 11, 28)]
    assert ids(str(tmp_path), date(2026, 11, 28)) == ["c"]
    assert ids(str(tmp_path), None, date(2026, 11, 28)) == ["a", "b"]


def test_a_prefix_is_read_like_a_folder(tmp_path: Path, prefix: Place) -> None:
    add(tmp_path, MORNING, "w1", row(request_id="a"))
    name = file_of(MORNING, "w1", 1)
    prefix.put(name, (tmp_path / name).read_bytes())
    (table,) = read_served(prefix.uri)
    assert table.schema == SCHEMA and table["time"].to_pylist() == [MORNING]


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    file = tmp_path / file_of(MORNING, "w1", 1)
    file.parent.mkdir()
    pq.write_table(pa.table({"user": ["U1"]}), file)
    with pytest.raises(KfrecError, match=r"09-w1-000001\.parquet: is no file of served rows .*; move it away"):
        list(read_served(str(tmp_path)))
