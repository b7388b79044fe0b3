"""A row group is read whole, a batch at a time, or is an error."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.errors import KfrecError
from components.tfrecord.row_groups import RowGroup

ROWS = 3000


def write(path: Path, **options: object) -> RowGroup:
    random = np.random.default_rng(1)
    lists = [random.integers(0, 120, length).tolist() for length in random.integers(0, 40, ROWS)]
    pq.write_table(pa.table({"ids": pa.array(lists, pa.list_(pa.int32()))}), path, **options)
    return RowGroup(path, ("ids",), 0, 0, ROWS, (sum(map(len, lists)),))


def test_batches_have_the_size_asked_for(tmp_path: Path) -> None:
    group = write(tmp_path / "a.parquet", data_page_size=700)
    batches = list(group.batches(rows=256))
    assert [batch.num_rows for batch in batches] == [256] * 11 + [ROWS - 11 * 256]
    assert pa.Table.from_batches(batches).equals(pq.read_table(group.path))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_damaged_bytes_give_as_many_rows_as_promised_or_an_error(tmp_path: Path, version: str) -> None:
    group = write(tmp_path / "a.parquet", data_page_size=700, data_page_version=version, compression="none")
    intact = group.path.read_bytes()
    footer = len(intact) - 8 - int.from_bytes(intact[-8:-4], "little")
    random = np.random.default_rng(3)
    for _ in range(100):
        damaged = bytearray(intact)
        for place in random.integers(4, footer, 3):
            damaged[place] = random.integers(256)
        group.path.write_bytes(damaged)
        with suppress(KfrecError):
            batches = list(group.batches(rows=256))
            assert sum(batch.num_rows for batch in batches) == ROWS
            for batch in batches:  # kernels trust the offsets
                batch.validate(full=True)
