from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.datasets import RawContract, RawKind
from components.datasets.amazon_reviews.raw_files import CONTRACT
from components.errors import KfrecError
from components.find.versions import count_rows, data_versions
from tests.fakes.object_stores import Place


def put(folder: Path, reviews: int, meta: bool = True) -> None:
    folder.mkdir(parents=True)
    (folder / "reviews_A.json").write_text("{}\n" * reviews)
    if meta:
        (folder / "meta_A.json").write_text("{}\n")


def test_versions_are_folders_with_a_whole_set_of_files(tmp_path: Path) -> None:
    for name in ("v2", "v10", "v9"):
        put(tmp_path / name, 3)
    put(tmp_path / "v11", 3, meta=False)
    put(tmp_path / "_staging", 3)
    versions, passed_over = data_versions(str(tmp_path), CONTRACT)
    assert [version.name for version in versions] == ["v2", "v9", "v10"]
    assert passed_over == [f"{tmp_path}/v11: skipped, it has no meta_*.json or meta_*.json.gz"]


def test_versions_are_found_in_object_storage(prefix: Place) -> None:
    for name in ("2026-11-02", "2026-11-10"):
        for file in ("reviews_A.json", "meta_A.json"):
            prefix.put(f"{name}/{file}", b"{}\n{}\n")
    versions, _ = data_versions(prefix.uri, CONTRACT)
    assert [version.name for version in versions] == ["2026-11-02", "2026-11-10"]
    assert versions[-1].uri == f"{prefix.uri}/2026-11-10"
    assert count_rows(versions[-1], 10) == 2


def test_counting_stops_where_enough_is_found(tmp_path: Path) -> None:
    put(tmp_path / "v1", 5)
    with gzip.open(tmp_path / "v1" / "reviews_B.json.gz", "wb") as file:
        file.write(b"{}\n" * 7)
    with (tmp_path / "v1" / "reviews_B.json.gz").open("ab") as file:
        file.write(gzip.compress(b"{}\n" * 4))
    ((version,), _) = data_versions(str(tmp_path), CONTRACT)
    assert count_rows(version, 1000) == 16
    assert count_rows(version, 3) == 5


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    put(tmp_path / "v1", 5)
    (tmp_path / "v1" / "reviews_B.json.gz").write_bytes(b"not gzip")
    ((version,), _) = data_versions(str(tmp_path), CONTRACT)
    with pytest.raises(KfrecError, match=r"v1/reviews_B\.json\.gz: not a valid gzip file"):
        count_rows(version, 1000)


def test_a_prefix_without_versions_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="no data version below; put each version into its own folder"):
        data_versions(str(tmp_path), CONTRACT)
    with pytest.raises(KfrecError, match="no such folder"):
        data_versions(str(tmp_path / "none"), CONTRACT)
    with pytest.raises(KfrecError, match="cannot be listed; use a folder, gs://"):
        data_versions("http://127.0.0.1:9/x", CONTRACT)


def test_rows_of_parquet_and_zip_are_counted(tmp_path: Path) -> None:
    contract = RawContract((RawKind("tables", r".+\.(csv\.zip|parquet)", "*.csv.zip or *.parquet", "rows"),))
    (tmp_path / "v1").mkdir()
    pq.write_table(pa.table({"a": list(range(70))}), tmp_path / "v1" / "a.parquet")
    with zipfile.ZipFile(tmp_path / "v1" / "b.csv.zip", "w") as archive:
        archive.writestr("b.csv", "a\n1\n2")
    ((version,), _) = data_versions(str(tmp_path), contract)
    assert count_rows(version, 1000) == 73
    assert count_rows(version, 10) == 70


def test_a_damaged_zip_is_named(tmp_path: Path) -> None:
    contract = RawContract((RawKind("tables", r".+\.zip", "*.zip", "rows"),))
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "b.csv.zip").write_bytes(b"PK no more")
    ((version,), _) = data_versions(str(tmp_path), contract)
    with pytest.raises(KfrecError, match=r"b\.csv\.zip: damaged or truncated"):
        count_rows(version, 1000)
