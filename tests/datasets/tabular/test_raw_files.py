"""Fetching tables, and what the synthetic one holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml

from components.artifacts import adopt, open_artifact
from components.datasets.tabular.raw_files import CONTRACT
from components.datasets.tabular.synthetic import write_synthetic
from components.download.step import run
from components.errors import KfrecError
from components.steps.catalog import STEPS
from tests.datasets.tabular.tables import CSV, SCHEMA, preprocess, samples, vocabulary


@pytest.mark.parametrize("name", ["a.csv", "b.data.gz", "c.test", "d.csv.zip", "d.zip", "e.parquet", "f.tsv.gz"])
def test_a_table_is_known_by_its_name(name: str) -> None:
    kind = CONTRACT.kind_of(name)
    assert kind is not None and kind.name == "tables"


@pytest.mark.parametrize("name", ["README.txt", "LICENSE.txt", "notes.md", ".hidden.csv", "_manifest.json", "data"])
def test_what_lies_beside_tables_is_not_fetched(name: str) -> None:
    assert CONTRACT.kind_of(name) is None


def test_tables_are_complete_without_a_schema_beside_them() -> None:
    assert CONTRACT.lacking(["a.csv"]) is None
    lacking = CONTRACT.lacking(["schema.yaml"])
    assert lacking is not None and lacking.name == "tables"


def test_download_counts_the_lines_of_all_kinds(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.csv").write_text(CSV)
    pq.write_table(pa.table({"a": [1, 2, 3]}), source / "b.parquet")
    (source / "README.md").write_text("words\n" * 9)
    counts = run(STEPS["download"].of(dataset="tabular", source=str(source)), raw=tmp_path / "raw")
    assert counts["lines"] == 7 + 3
    assert [entry.path for entry in open_artifact(tmp_path / "raw").files] == ["a.csv", "b.parquet"]


def test_a_damaged_parquet_file_is_found_at_once(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "b.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(KfrecError, match=r"b\.parquet: damaged or truncated"):
        run(STEPS["download"].of(dataset="tabular", source=str(tmp_path / "source")), raw=tmp_path / "raw")


def _partitions(source: Path) -> None:
    rows = CSV.splitlines(keepends=True)
    for month, size in (("1", 3), ("__HIVE_DEFAULT_PARTITION__", 2), ("3", 4)):
        folder = source / "shop=N%20W" / f"month={month}"
        folder.mkdir(parents=True)
        lines = [line.rpartition(",")[0] + "\n" for line in rows[:size]]
        (folder / "part.csv").write_text("".join(lines))


def test_folders_named_key_and_value_give_their_tables_columns(tmp_path: Path) -> None:
    source = tmp_path / "source"
    _partitions(source)
    schema = {**SCHEMA, "columns": {**SCHEMA["columns"], "shop": {"role": "categorical"}}}
    (source / "schema.yaml").write_text(yaml.safe_dump(schema))
    (source / "notes").mkdir()
    (source / "notes" / "other.csv").write_text(CSV)
    counts = run(STEPS["download"].of(dataset="tabular", source=str(source)), raw=tmp_path / "raw")
    assert counts["lines"] == 3 + 2 + 4
    assert [entry.path for entry in open_artifact(tmp_path / "raw").files if entry.path != "schema.yaml"] == [
        f"shop=N%20W/month={month}/part.csv" for month in ("1", "3", "__HIVE_DEFAULT_PARTITION__")
    ]
    again = run(STEPS["download"].of(dataset="tabular", source=str(source)), raw=tmp_path / "raw")
    assert again == counts
    preprocess(tmp_path / "raw", tmp_path / "parquet", malformed_limit=1.0)
    output = tmp_path / "parquet"
    assert vocabulary(output, "shop") == ["N W"]
    assert len(samples(output, "train")["city"]) == 2 and len(samples(output, "test")["city"]) == 3
    # The row of the default partition has no split.
    assert [path.name for path in (output / "quarantine").iterdir()] == [
        "shop=N%20W,month=__HIVE_DEFAULT_PARTITION__,part.csv.jsonl"
    ]


def test_a_column_of_the_table_itself_goes_before_its_folders(tmp_path: Path) -> None:
    folder = tmp_path / "raw" / "month=7"
    folder.mkdir(parents=True)
    (folder / "t.csv").write_text(CSV)
    (tmp_path / "raw" / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    adopt(tmp_path / "raw")
    preprocess(tmp_path / "raw", tmp_path / "parquet")
    assert len(samples(tmp_path / "parquet", "test")["city"]) == 2


def _synthetic(folder: Path, **parameters: object) -> pa.Table:
    folder.mkdir()
    write_synthetic(STEPS["download"].of(dataset="tabular", synthetic_rows=20_000, **parameters), folder)
    return pyarrow.csv.read_csv(folder / "visits.csv")


def test_the_same_parameters_give_the_same_table(tmp_path: Path) -> None:
    assert _synthetic(tmp_path / "a").equals(_synthetic(tmp_path / "b"))
    assert not _synthetic(tmp_path / "c", seed=7).equals(_synthetic(tmp_path / "d"))


@pytest.mark.parametrize("shuffled", [False, True])
def test_prices_in_the_middle_sell_best_unless_labels_are_shuffled(tmp_path: Path, shuffled: bool) -> None:
    table = _synthetic(tmp_path / "a", synthetic_shuffled_labels=shuffled)
    bought, price = table["bought"].to_numpy(), table["price"].to_numpy()
    middle = np.abs(np.log(np.maximum(price, 0.01)) - 3) < 0.5
    gain = bought[middle].mean() - bought[~middle].mean()
    assert abs(gain) < 0.03 if shuffled else gain > 0.08
