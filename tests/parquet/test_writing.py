"""What the fast writer writes, the general reader and the fast one read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.parquet.lists import read_lists
from components.parquet.writing import TableWriter

REQUIRED_LIST = pa.list_(pa.field("element", pa.int32(), nullable=False))
SCHEMA = pa.schema(
    [
        pa.field("label", pa.int8(), nullable=False),
        pa.field("count", pa.int16(), nullable=False),
        pa.field("item", pa.int32(), nullable=False),
        pa.field("items", REQUIRED_LIST, nullable=False),
        pa.field("others", REQUIRED_LIST, nullable=False),
    ]
)


def table(rows: int, length: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)

    def numbers(kind: type, count: int) -> pa.Array:
        return pa.array(random.integers(np.iinfo(kind).min, np.iinfo(kind).max, count, kind, endpoint=True))

    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * length)
    lists = [pa.ListArray.from_arrays(offsets, numbers(np.int32, rows * length), type=REQUIRED_LIST) for _ in range(2)]
    return pa.table([*(numbers(kind, rows) for kind in (np.int8, np.int16, np.int32)), *lists], schema=SCHEMA)


def write(path: Path, tables: list[pa.Table], group_rows: int = 1000) -> Path:
    with TableWriter(path, SCHEMA, group_rows) as writer:
        for part in tables:
            writer.write(part)
    assert writer.rows == sum(part.num_rows for part in tables)
    return path


@pytest.mark.parametrize("length", [1, 2, 9, 100, 5000])
def test_tables_come_back(tmp_path: Path, length: int) -> None:
    tables = [table(rows, length, seed) for seed, rows in enumerate((3, 0, 700, 600, 2))]
    path = write(tmp_path / "a.parquet", tables)
    found = pq.read_table(path)
    found.validate(full=True)
    assert found.schema.equals(SCHEMA)
    assert found.equals(pa.concat_tables(tables))
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [1303, 2]


@pytest.mark.parametrize("length", [1, 2, 9, 100])
def test_the_fast_reader_reads_the_lists(tmp_path: Path, length: int) -> None:
    written = table(9000, length, seed=1)
    with pq.ParquetFile(write(tmp_path / "a.parquet", [written])) as file, (tmp_path / "a.parquet").open("rb") as pages:
        leaf, group = file.metadata.schema.column(3), file.metadata.row_group(0)
        arrays = list(read_lists(pages.fileno(), group.column(3), leaf, group.num_rows, 4096))
    assert [len(array) for array in arrays] == [4096, 4096, 808]
    assert pa.concat_arrays(arrays).flatten().equals(written["items"].chunk(0).flatten())


def test_slices_and_several_chunks_come_back(tmp_path: Path) -> None:
    whole = table(50, 4, seed=2)
    parts = pa.concat_tables([whole.slice(7, 20), whole.slice(40)])
    assert pq.read_table(write(tmp_path / "a.parquet", [parts])).equals(parts)


def test_many_row_groups_and_none(tmp_path: Path) -> None:
    tables = [table(5, 3, seed) for seed in range(200)]
    path = write(tmp_path / "a.parquet", tables, group_rows=5)
    assert pq.read_metadata(path).num_row_groups == 200
    assert pq.read_table(path).equals(pa.concat_tables(tables))
    assert pq.read_table(write(tmp_path / "b.parquet", [])).equals(SCHEMA.empty_table())


def test_sizes_in_the_footer_are_those_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [table(800, 100, seed) for seed in range(3)])
    metadata, end = pq.read_metadata(path), 4
    for group in (metadata.row_group(i) for i in range(metadata.num_row_groups)):
        for column in (group.column(i) for i in range(group.num_columns)):
            assert column.data_page_offset == end
            assert column.total_uncompressed_size >= 4 * column.num_values
            end += column.total_compressed_size
    assert end == path.stat().st_size - metadata.serialized_size - 8


def lists(values: list[list[int] | None]) -> pa.Table:
    rows = len(values)
    numbers = [pa.array(np.zeros(rows), kind) for kind in (pa.int8(), pa.int16(), pa.int32())]
    return pa.table([*numbers, pa.array(values, REQUIRED_LIST), pa.array(values, REQUIRED_LIST)], schema=SCHEMA)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lists([[1], [2, 3]]), "items: lists of 1 to 2 values"),
        (lists([[], []]), "items: lists of 0 to 0 values"),
        (lists([[1], None]), "items: has nulls"),
        (lists([[1]]).drop(["label"]), "a table of"),
    ],
    ids=["ragged", "empty", "null", "another schema"],
)
def test_what_it_cannot_write_is_an_error_and_no_file(tmp_path: Path, wrong: pa.Table, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        write(tmp_path / "a.parquet", [table(5, 1, seed=3), wrong])
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "column",
    [
        pa.field("a", pa.int64(), nullable=False),
        pa.field("a", pa.uint8(), nullable=False),
        pa.field("a", pa.int32()),
        pa.field("a", pa.list_(pa.int32()), nullable=False),
        pa.field("a", REQUIRED_LIST),
        pa.field("a", pa.list_(pa.field("element", pa.float32(), nullable=False)), nullable=False),
    ],
    ids=str,
)
def test_columns_it_would_spoil_are_refused(tmp_path: Path, column: pa.Field) -> None:
    with pytest.raises(ValueError, match="can be written"):
        TableWriter(tmp_path / "a.parquet", pa.schema([column]), 10)
    assert not (tmp_path / "a.parquet").exists()
