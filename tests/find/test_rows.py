"""Rows of tables are one if their values are."""

from __future__ import annotations

import gzip
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.datasets.events import DATASET
from components.errors import KfrecError
from components.feature_spec.side_tables import read_side_table
from components.find.versions import _hashes, data_versions, new_rows, row_hashes
from components.inference.formats import rows_file
from components.protocols.invocations import PARQUET
from components.protocols.invocations import read as read_request
from components.storage import open_store
from components.storage.packed import parquet_batches, read_packed

EVENTS = pd.DataFrame(
    {
        "user": [f"u{row % 9}" for row in range(90)],
        "item": [1152921504606846978 + row % 7 for row in range(90)],
        "rating": [row / 8 for row in range(90)],
        "timestamp": [1_704_067_200 + 3600 * row for row in range(90)],
    }
)
DATES = pd.to_datetime(EVENTS["timestamp"], unit="s")


def exported(folder: Path, write: Callable[[Path], object]) -> None:
    folder.mkdir(parents=True)
    write(folder)


def new(prefix: Path) -> int:
    one, two = data_versions(str(prefix), DATASET.raw)[0]
    return new_rows(two, one)


@pytest.mark.parametrize(
    "write",
    [
        lambda to: EVENTS.assign(timestamp=DATES).to_parquet(to / "day.parquet"),
        lambda to: EVENTS.assign(timestamp=DATES.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")).to_parquet(
            to / "day.parquet"
        ),
        lambda to: EVENTS.assign(timestamp=EVENTS["timestamp"] * 1000).to_csv(to / "day.tsv", sep="\t", index=False),
        lambda to: EVENTS.assign(timestamp=DATES.dt.strftime("%Y-%m-%dT%H:%M:%SZ")).to_csv(
            to / "day.csv", sep=";", index=False
        ),
        lambda to: (
            EVENTS.assign(timestamp=EVENTS["timestamp"].astype(float), rating=EVENTS["rating"].map("{:.4f}".format))
            .sample(frac=2, replace=True)
            .to_csv(to / "other name.csv.gz", index=False)
        ),
        lambda to: (
            EVENTS[["timestamp", "rating", "item", "user"]]
            .assign(gone=None)
            .to_csv(to / "day.csv", index=False, quoting=1, lineterminator="\r\n")
        ),
        lambda to: EVENTS.assign(
            rating=EVENTS["rating"].astype(np.float32), timestamp=DATES.astype("M8[ns]")
        ).to_parquet(to / "part-0.parquet"),
    ],
)
def test_the_same_events_in_another_file_are_not_new(tmp_path: Path, write: Callable[[Path], object]) -> None:
    exported(tmp_path / "1", lambda to: EVENTS.to_csv(to / "events.csv", index=False))
    exported(tmp_path / "2", write)
    assert new(tmp_path) == 0


def test_rows_that_differ_in_one_value_are_new(tmp_path: Path) -> None:
    exported(tmp_path / "1", lambda to: EVENTS.to_csv(to / "events.csv", index=False))
    changed = EVENTS.assign(timestamp=DATES)
    changed.loc[3, "item"] += 100
    changed.loc[5, "timestamp"] += pd.Timedelta("1us")
    changed.loc[7, "user"] = "u07"
    changed.loc[8, "rating"] = None
    more = pd.concat([changed, changed.assign(timestamp=DATES + pd.Timedelta("1h")).tail(1)])
    # Its index is a column of the file.
    exported(tmp_path / "2", lambda to: more.to_parquet(to / "events.parquet"))
    assert new(tmp_path) == 5


def test_swapped_columns_are_new_rows(tmp_path: Path) -> None:
    exported(tmp_path / "1", lambda to: EVENTS.to_csv(to / "events.csv", index=False))
    swapped = EVENTS.rename(columns={"user": "item", "item": "user"})
    exported(tmp_path / "2", lambda to: swapped.to_csv(to / "events.csv", index=False))
    assert new(tmp_path) == 90


def test_a_table_without_a_header_has_all_its_rows(tmp_path: Path) -> None:
    exported(tmp_path / "1", lambda to: EVENTS.to_csv(to / "events.csv", index=False, header=False))
    text = EVENTS.sample(frac=1).to_csv(index=False, header=False).encode()
    exported(tmp_path / "2", lambda to: (to / "day.csv.gz").write_bytes(gzip.compress(text + b"u1,2,0.5,1704067201\n")))
    assert new(tmp_path) == 1


def test_a_table_that_only_its_schema_explains_is_compared_by_lines(tmp_path: Path) -> None:
    lines = ["title,year", *(f'5" disk number {row},{row}' if row == 80 else f"disk,{row}" for row in range(90))]
    for name, text in (("1", lines), ("2", [*lines, "disk,90"])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.csv").write_text("\n".join(text))
    assert new(tmp_path) == 1


def test_ids_that_look_like_nanoseconds_stay_apart(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    EVENTS.iloc[:7].assign(user="u", rating=1, timestamp=1_704_067_200).to_csv(table, index=False)
    assert len(np.unique(np.concatenate(list(row_hashes(table))))) == 7


@pytest.mark.parametrize("suffix", [".gz", ".zip"])
def test_a_line_that_is_small_only_when_packed_is_refused(suffix: str, tmp_path: Path) -> None:
    """At its 65th MiB; the rest of it is not read."""
    line, version = b"x" * (1 << 20), tmp_path / "2"
    exported(tmp_path / "1", lambda to: (to / "reviews_a.json").write_text("{}\n"))
    exported(version, lambda to: None)
    for to in (tmp_path / "1", version):
        (to / "meta_a.json").write_text("{}")
    with ExitStack() as stack:
        path = version / f"reviews_a.json{suffix}"
        if suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED))
            file: IO[bytes] = stack.enter_context(archive.open("reviews_a.json", "w"))
        else:
            file = cast(IO[bytes], stack.enter_context(gzip.open(path, "wb")))
        for _ in range(200):
            file.write(line)
    assert path.stat().st_size < 1 << 20
    store = open_store(str(version))
    tracemalloc.start()
    try:
        with pytest.raises(KfrecError, match=r"reviews_a\.json.*: a line is longer than 64 MiB; end its lines"):
            list(_hashes(store, [path.name], False))
        assert tracemalloc.get_traced_memory()[1] < 160 << 20
    finally:
        tracemalloc.stop()


def test_a_small_parquet_file_with_lists_of_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [[0] * 20_000_000], "b": [1]}), path)
    assert path.stat().st_size < 5000
    for read in (read_packed(path, "a.parquet"), row_hashes(path)):
        with pytest.raises(KfrecError, match=r"a\.parquet: has [\d,]+ bytes and lists of 20,000,000 values, which no"):
            list(read)


SHARED_TEXTS = [
    lambda texts: texts,
    lambda texts: pa.StructArray.from_arrays([texts, pa.array(range(len(texts)))], ["text", "number"]),
    lambda texts: pa.ListArray.from_arrays(np.arange(len(texts) + 1, dtype=np.int32), texts),
    lambda texts: pa.MapArray.from_arrays(
        np.arange(len(texts) + 1, dtype=np.int32), pa.array(map(str, range(len(texts)))), texts
    ),
]


@pytest.mark.parametrize("column", SHARED_TEXTS)
@pytest.mark.parametrize("read", [
    lambda path: (len(rows) for rows in read_packed(path, "a.parquet")),
    lambda path: map(len, row_hashes(path)),
    lambda path: map(len, rows_file(path).batches(1000)),
])  # fmt: skip
def test_a_long_text_that_many_rows_of_a_parquet_file_share_is_held_a_few_times(
    tmp_path: Path, read: Callable[[Path], Iterable[int]], column: Callable[[pa.Array], pa.Array]
) -> None:
    rows, text = 60, "a" * (8 << 20)
    shared = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [text])
    noise = np.random.default_rng(0).bytes(1 << 20)  # the more bytes, the more may be in memory
    table = pa.table({"a": column(shared), "b": np.arange(rows), "c": [noise.hex()] + [""] * (rows - 1)})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression="zstd", store_schema=False, dictionary_pagesize_limit=1 << 30)
    before, most, count = pa.total_allocated_bytes(), 0, 0
    for found in read(path):
        count += found
        most = max(most, pa.total_allocated_bytes() - before)
    assert count == rows and most < 300 << 20


def test_a_row_of_a_parquet_file_has_texts_of_at_most_a_long_line(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["b", "a" * (65 << 20)], "b": [1, 2]}), tmp_path / "a.parquet")
    with pytest.raises(KfrecError, match=r"a\.parquet: the texts of a row are longer than 64 MiB; shorten them"):
        list(row_hashes(tmp_path / "a.parquet"))


@pytest.mark.parametrize("column", SHARED_TEXTS)
@pytest.mark.parametrize("as_categories", [False, True])
def test_a_small_parquet_file_with_texts_of_gigabytes_is_refused(
    tmp_path: Path, as_categories: bool, column: Callable[[pa.Array], pa.Array]
) -> None:
    shared = pa.DictionaryArray.from_arrays(np.zeros(16_384, np.int32), ["a" * (1 << 20)])
    path = tmp_path / "a.parquet"
    table = pa.table({"a": column(shared), "b": np.arange(16_384)})
    pq.write_table(table, path, compression="zstd", store_schema=as_categories)
    assert path.stat().st_size < 1 << 17
    for read in (read_packed(path, "a.parquet"), row_hashes(path), rows_file(path).batches(1000)):
        with pytest.raises(KfrecError, match=r"a\.parquet: has [\d,]+ bytes and texts of more than [\d,]+, which no"):
            for _ in read:
                pass
    with pytest.raises(KfrecError, match=r"the body: has [\d,]+ bytes and texts of more than [\d,]+, which no"):
        read_request(path.read_bytes(), PARQUET)
    with pytest.raises(KfrecError, match=r"a\.parquet: has [\d,]+ bytes and texts of more than [\d,]+, which no"):
        read_side_table({"a": path}, "a")


def test_texts_within_lists_structs_and_maps_are_read_as_they_are(tmp_path: Path) -> None:
    long = "a" * (1 << 20)
    table = pa.table({
        "lists": [["b", None, long], None, []],
        "structs": [{"text": long, "lists": [["c"], None]}, None, {"text": None, "lists": []}],
        "maps": pa.array([[(long, "d")], [], None], pa.map_(pa.string(), pa.string())),
        "bytes": pa.array([b"e", None, b""]),
        "large": pa.array([["f"], None, [long]], pa.large_list(pa.large_string())),
        "fixed": pa.array([["g", "h"], [None, "i"], ["j", long]], pa.list_(pa.string(), 2)),
        "categories": pa.array(["k", "k", None]).dictionary_encode(),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    for rows in (100, 2):
        batches = list(parquet_batches(tmp_path / "a.parquet", rows, "a.parquet"))
        assert pa.Table.from_batches(batches).equals(table)
    chosen = list(parquet_batches(tmp_path / "a.parquet", 100, "a.parquet", ["fixed", "maps"]))
    assert pa.Table.from_batches(chosen).select(["maps", "fixed"]).equals(table.select(["maps", "fixed"]))
