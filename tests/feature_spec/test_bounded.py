"""Vocabularies that a small file blows up in memory are refused before they are decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.errors import KfrecError
from components.feature_spec.values import read_bounded


def test_a_vocabulary_is_read_as_it_is(tmp_path: Path) -> None:
    values = [f"item {number}" for number in range(50_000)]
    written: list[dict[str, Any]] = [{}, {"use_dictionary": False}, {"compression": "zstd", "row_group_size": 999}]
    for number, options in enumerate(written):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"id": range(3, 50_003), "value": values}), path, **options)
        found = read_bounded(path, ["id", "value"])
        assert found["value"].to_pylist() == values and found["id"].to_pylist() == list(range(3, 50_003))


def test_one_long_value_many_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    value = pa.DictionaryArray.from_arrays(pa.array([0] * 6_000, pa.int32()), pa.array(["x" * (1 << 20)]))
    pq.write_table(pa.table({"id": range(6_000), "value": value}), path)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(KfrecError, match=r"v\.parquet: has .* bytes and would take .* bytes of value in memory"):
        read_bounded(path, ["id", "value"])


@pytest.mark.slow
def test_declared_sizes_are_checked_before_decoding(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"id": pa.array([0]), "value": ["0" * (200 << 20)]}), path, compression="zstd")
    assert path.stat().st_size < 1 << 20
    with pytest.raises(KfrecError, match=r"would take [0-9,]+ bytes in memory"):
        read_bounded(path, ["id", "value"])


def test_a_column_that_is_not_there_is_a_key_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "v.parquet")
    with pytest.raises(KeyError):
        read_bounded(tmp_path / "v.parquet", ["id", "value"])
