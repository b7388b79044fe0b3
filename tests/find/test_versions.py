from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.datasets import RawContract, RawKind
from components.datasets.amazon_reviews import CONTRACT
from components.errors import KfrecError
from components.find.versions import DataVersion, data_versions, new_rows
from components.storage import Retry
from tests.fakes.faulty_storage import CUT, REFUSED, FaultyStorage
from tests.fakes.object_stores import Place, place_in_bucket


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
    for name, more in (("2026-11-02", b"2"), ("2026-11-10", b"3\n4")):
        for file in ("reviews_A.json", "meta_A.json"):
            prefix.put(f"{name}/{file}", b"1\n" + more)
        prefix.put(f"{name}/reviews_B.json", b"5\n")
    versions, _ = data_versions(prefix.uri, CONTRACT)
    assert [version.name for version in versions] == ["2026-11-02", "2026-11-10"]
    assert versions[-1].uri == f"{prefix.uri}/2026-11-10"
    assert new_rows(versions[-1], versions[0]) == 2


def test_a_number_sign_in_a_folder_of_object_storage_is_part_of_its_name(prefix: Place) -> None:
    for name, more in (("day", b"2"), ("day#2", b"3\n4\n5")):
        for file in ("reviews_A.json", "meta_A.json"):
            prefix.put(f"{name}/{file}", b"1\n" + more)
    first, second = data_versions(prefix.uri, CONTRACT)[0]
    assert (second.name, new_rows(second, first)) == ("day#2", 3)


def test_a_folder_of_object_storage_with_a_question_mark_is_skipped(prefix: Place) -> None:
    """What follows it in a URI are settings, so that the folder day would be read twice."""
    for name in ("day", "day?2"):
        for file in ("reviews_A.json", "meta_A.json"):
            prefix.put(f"{name}/{file}", b"1\n")
    versions, passed_over = data_versions(prefix.uri, CONTRACT)
    assert [version.name for version in versions] == ["day"]
    assert "skipped, it has a ? in its name" in passed_over[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gs", "s3"])
def test_rows_are_counted_though_reads_break_off(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_in_bucket(kind, request)
    for name, rows in (("v1", range(40_000)), ("v2", range(10_000, 50_000))):
        place.put(f"{name}/meta_A.json", b"1\n")
        place.put(f"{name}/reviews_A.json.gz", gzip.compress("".join(f"{row}\n" for row in rows).encode()))
    upstream = request.getfixturevalue(f"{'gcs' if kind == 'gs' else 's3'}_emulator")
    monkeypatch.setattr("components.find.versions._RETRY", Retry(6, first_wait=0.01))
    with FaultyStorage(upstream).running() as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST" if kind == "gs" else "AWS_ENDPOINT_URL", proxy.url)
        proxy.faults = ("503", REFUSED, CUT)
        one, two = data_versions(place.uri, CONTRACT)[0]
        assert new_rows(two, one) == 10_000


def write(folder: Path, name: str, rows: Iterable[int], end: str = "\n") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{row}{end}" for row in rows).encode()
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)


def versions_of(prefix: Path, contract: RawContract) -> list[DataVersion]:
    return data_versions(str(prefix), contract)[0]


def test_a_window_that_rolls_on_is_new_by_what_it_gained(tmp_path: Path) -> None:
    """Both windows have 100 rows, divided among other files."""
    for version, window in (("v1", range(100)), ("v2", range(30, 130))):
        write(tmp_path / version, "meta_A.json", [0])
        middle = window[70] if version == "v1" else window[10]
        write(tmp_path / version, "reviews_A.json", range(window[0], middle))
        write(tmp_path / version, "reviews_B.json.gz", range(middle, window[-1] + 1), "\r\n")
    one, two = versions_of(tmp_path, CONTRACT)
    assert new_rows(two, one) == 30
    assert new_rows(one, one) == 0


def test_a_gzip_file_of_several_members_is_read_whole(tmp_path: Path) -> None:
    for version, rows in (("v1", 5), ("v2", 9)):
        put(tmp_path / version, 5)
        write(tmp_path / version, "reviews_B.json.gz", range(3))
        with (tmp_path / version / "reviews_B.json.gz").open("ab") as file:
            file.write(gzip.compress("".join(f"{row}\n" for row in range(rows)).encode()))
    one, two = versions_of(tmp_path, CONTRACT)
    assert new_rows(two, one) == 4


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    put(tmp_path / "v1", 5)
    (tmp_path / "v1" / "reviews_B.json.gz").write_bytes(b"not gzip")
    (version,) = versions_of(tmp_path, CONTRACT)
    with pytest.raises(KfrecError, match=r"v1/reviews_B\.json\.gz: not a valid gzip file"):
        new_rows(version, version)


def test_a_prefix_without_versions_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="no data version below; put each version into its own folder"):
        data_versions(str(tmp_path), CONTRACT)
    with pytest.raises(KfrecError, match="no such folder"):
        data_versions(str(tmp_path / "none"), CONTRACT)
    with pytest.raises(KfrecError, match="cannot be listed; use a folder, gs://"):
        data_versions("http://127.0.0.1:9/x", CONTRACT)


def test_rows_of_parquet_and_zip_are_compared(tmp_path: Path) -> None:
    contract = RawContract((RawKind("tables", r".+\.(csv\.zip|parquet)", "*.csv.zip or *.parquet", "rows"),))
    for version, first in (("v1", 0), ("v2", 4)):
        (tmp_path / version).mkdir()
        rows = {"a": list(range(first, first + 70)), "b": [[1.5, None], []] * 35}
        pq.write_table(pa.table(rows), tmp_path / version / "a.parquet")
        with zipfile.ZipFile(tmp_path / version / "b.csv.zip", "w") as archive:
            archive.writestr("b.csv", f"a\n1\n{first}")
    one, two = versions_of(tmp_path, contract)
    assert new_rows(two, one) == 5


def test_a_damaged_zip_is_named(tmp_path: Path) -> None:
    contract = RawContract((RawKind("tables", r".+\.zip", "*.zip", "rows"),))
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "b.csv.zip").write_bytes(b"PK no more")
    (version,) = versions_of(tmp_path, contract)
    with pytest.raises(KfrecError, match=r"b\.csv\.zip: damaged or truncated"):
        new_rows(version, version)
