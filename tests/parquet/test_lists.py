"""The fast reader of lists gives what pyarrow gives, or says that it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.errors import KfrecError
from components.parquet.lists import read_lists
from components.parquet.pages import Unusual
from components.tfrecord.parts import RowGroup

ROWS = 3000


def lists(kind: pa.DataType, cardinality: int, lengths: np.ndarray) -> pa.Array:
    rng = np.random.default_rng(cardinality)
    # Every second list repeats one value, so that dictionary indices come in runs too.
    values = [rng.integers(0, cardinality, length) if n % 2 else [n % cardinality] * length
              for n, length in enumerate(lengths.tolist())]  # fmt: skip
    return pa.array(values, pa.list_(kind))


def write(path: Path, column: pa.Array, **options: Any) -> Path:
    pq.write_table(pa.table({"ids": column}), path, **options)
    return path


def read(path: Path, batch_rows: int) -> Iterator[pa.Array]:
    with pq.ParquetFile(path) as file, path.open("rb") as pages:
        group = file.metadata.row_group(0)
        yield from read_lists(
            pages.fileno(), group.column(0), file.metadata.schema.column(0), group.num_rows, batch_rows
        )


FIXED, RAGGED = np.full(ROWS, 12), np.random.default_rng(1).integers(1, 40, ROWS)


@pytest.mark.parametrize("lengths", [FIXED, RAGGED], ids=["fixed", "ragged"])
@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"data_page_size": 700},
        {"data_page_size": 700, "data_page_version": "2.0"},
        {"data_page_size": 700, "write_page_index": True, "write_page_checksum": True},
        {"dictionary_pagesize_limit": 100, "data_page_size": 3000},
        *({"compression": name} for name in ("none", "zstd", "gzip", "lz4")),
        {"compression": "zstd", "data_page_version": "2.0"},
        {"compression": "none", "data_page_version": "2.0"},
    ],
    ids=str,
)
def test_lists_are_those_of_the_general_reader(
    tmp_path: Path, lengths: np.ndarray, kind: pa.DataType, options: dict[str, Any]
) -> None:
    column = lists(kind, 120, lengths)
    arrays = list(read(write(tmp_path / "a.parquet", column, **options), 256))
    assert [len(array) for array in arrays] == [256] * 11 + [ROWS - 11 * 256]
    assert pa.concat_arrays(arrays).to_pylist() == column.to_pylist()


@pytest.mark.parametrize("cardinality", [1, 2, 200, 70_000, 2**31])
def test_dictionary_indices_of_any_width_are_read(tmp_path: Path, cardinality: int) -> None:
    column = lists(pa.int64(), cardinality, np.full(9000, 12))
    arrays = list(read(write(tmp_path / "a.parquet", column, dictionary_pagesize_limit=1 << 24), 4096))
    assert pa.concat_arrays(arrays).to_pylist() == column.to_pylist()


@pytest.mark.parametrize(
    ("column", "options"),
    [
        (pa.array([1, 2, 3]), {}),
        (pa.array([[1], [], [2]]), {}),
        (pa.array([[1], None, [2]]), {}),
        (pa.array([[1], [None], [2]]), {}),
        (pa.array([[1], [2]], pa.list_(pa.uint32())), {}),
        (pa.array([[1], [2]]), {"compression": "brotli"}),
        (pa.array([[1], [2]]), {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}),
    ],
    ids=["scalars", "empty list", "null list", "null value", "unsigned", "brotli", "delta"],
)  # fmt: skip
def test_what_it_cannot_read_is_left_to_the_general_reader(
    tmp_path: Path, column: pa.Array, options: dict[str, Any]
) -> None:
    with pytest.raises(Unusual):
        list(read(write(tmp_path / "a.parquet", column, **options), 256))


def row_group(path: Path, rows: int) -> RowGroup:
    return RowGroup(path, ("ids",), 0, 0, rows, (rows * 12,))


def test_the_general_reader_takes_over_where_the_fast_one_gives_up(tmp_path: Path) -> None:
    values = lists(pa.int64(), 120, FIXED).to_pylist()
    values[2000] = []
    path = write(tmp_path / "a.parquet", pa.array(values), data_page_size=700)
    batches = list(row_group(path, ROWS).batches(rows=256))
    assert [row for batch in batches for row in batch.column(0).to_pylist()] == values


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_damaged_bytes_give_as_many_lists_as_promised_or_an_error(tmp_path: Path, version: str) -> None:
    options = {"data_page_size": 700, "data_page_version": version, "compression": "none"}
    path = write(tmp_path / "a.parquet", lists(pa.int32(), 120, RAGGED), **options)
    intact = path.read_bytes()
    footer = len(intact) - 8 - int.from_bytes(intact[-8:-4], "little")
    rng = np.random.default_rng(3)
    for _ in range(200):
        damaged = bytearray(intact)
        for place in rng.integers(4, footer, 3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        with suppress(KfrecError):
            assert sum(batch.num_rows for batch in row_group(path, ROWS).batches(rows=256)) == ROWS
