"""kfrec init-schema: a first schema that runs as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.cli import main
from tests.datasets.tabular.tables import made

ROWS = 200
RNG = np.random.default_rng(3)


def table(delimiter: str = ",", decimal: str = ".") -> str:
    """With an id, a time, two numbers, a city, tags, a constant and a label."""
    lines = [delimiter.join(("order_id", "day", "age", "price", "city", "tags", "country", "bought"))]
    for row in range(ROWS):
        price = f"{RNG.random() * 90:.2f}".replace(".", decimal)
        day = f"2024-{1 + row // 28 % 12:02d}-{1 + row % 28:02d}"
        cells = (row, day, 20 + row % 40, price, ("Rome", "Oslo", "Bonn")[row % 3], "a|b" if row % 2 else "c", "IT")
        lines.append(delimiter.join((*map(str, cells), str(int(RNG.random() < 0.4)))))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("delimiter", "decimal"), [(",", "."), (";", ","), ("\t", ".")])
def test_a_first_schema_reads_its_table(
    delimiter: str, decimal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = table(delimiter, decimal)
    (tmp_path / "t.csv").write_text(text)
    assert main(["init-schema", str(tmp_path / "t.csv")]) == 0
    assert f"kfrec run --model logistic_regression --source {tmp_path}" in capsys.readouterr().out
    written = (tmp_path / "schema.yaml").read_text()
    schema = yaml.safe_load(written)
    assert schema["label"] == {"column": "bought"}
    assert schema["split"] == {"by": "time", "column": "day", "share": 0.2, "validation_share": 0.1}
    roles = {name: entry["role"] for name, entry in schema["columns"].items()}
    assert roles == {"age": "numeric", "price": "numeric", "city": "categorical", "tags": "multihot"}
    assert schema["drop"] == ["order_id", "country"]
    output = made(tmp_path / "made", {"t.csv": text}, written)
    counts = {split: pq.read_table(output / split).num_rows for split in ("train", "validation", "test")}
    assert sum(counts.values()) == ROWS and min(counts.values()) >= 10
    assert pq.read_table(output / "train")["price"].null_count == 0


def test_a_parquet_file_and_a_named_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"kind": ["a", "b", "b", "b"] * 10, "tags": [["x"], ["x", "y"], [], None] * 10, "n": list(range(40))}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert main(["init-schema", str(tmp_path / "t.parquet"), "--label", "kind", "--output", "-"]) == 0
    schema = yaml.safe_load(capsys.readouterr().out)
    assert schema["label"] == {"column": "kind", "equals": "a"}
    assert schema["split"]["by"] == "random"
    assert schema["columns"] == {"tags": {"role": "multihot", "longest": 2}, "n": {"role": "numeric"}}


def guessed(folder: Path, content: str, *words: str) -> dict[str, Any]:
    """The schema that is written for a table."""
    (folder / "t.csv").write_text(content)
    assert main(["init-schema", str(folder / "t.csv"), *words]) == 0
    return dict(yaml.safe_load((folder / "schema.yaml").read_text()))


def rows_of(header: str, **columns: Any) -> str:
    """A CSV file of ROWS rows; a column is a function of the row's number."""
    rows = (",".join(str(make(row)) for make in columns.values()) for row in range(ROWS))
    return "\n".join((header, *rows)) + "\n"


def test_what_is_no_number_among_numbers_is_missing(tmp_path: Path) -> None:
    columns = {
        "power": lambda row: "?" if row % 9 == 0 else row % 50,
        "rate": lambda row: "-inf" if row % 40 == 0 else row / 7,
        "sign": lambda row: "+-"[row % 2],
        "label": lambda row: "?" if row % 8 == 0 else row % 2,
    }
    schema = guessed(tmp_path, rows_of(",".join(columns), **columns))
    assert schema["columns"] == {
        "power": {"role": "numeric"}, "rate": {"role": "numeric"}, "sign": {"role": "categorical"},
    }  # fmt: skip
    assert {"", "NA", "?", "-inf"} <= set(schema["missing"]) and "-" not in schema["missing"]
    assert schema["label"] == {"column": "label", "missing": "drop"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("no", "yes", "yes"), {"equals": "yes"}),
        (("-1", "1", "1"), {"equals": "1"}),
        (("good", "bad", "bad"), {"equals": "good"}),
        ([str(row / 4) for row in range(ROWS)], {"above": (ROWS - 1) / 8}),
    ],
)
def test_the_positive_labels(values: Sequence[str], expected: dict[str, Any], tmp_path: Path) -> None:
    text = rows_of("city,label", city=lambda row: "ab"[row % 2], label=lambda row: values[row % len(values)])
    assert guessed(tmp_path, text)["label"] == {"column": "label", **expected}


def test_columns_that_are_no_features_are_dropped(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "": lambda row: row, "Größe": lambda row: row % 9,
        "zip": lambda row: f"{row % 7:05d}",
        "day": lambda row: f"{1 + row % 28}/{1 + row % 12}/2024",
        "income": lambda row: f'"${row},{row % 90 + 100}"', "label": lambda row: row % 2,
    }  # fmt: skip
    text = rows_of(",".join(columns), **columns)
    schema = guessed(tmp_path, text)
    assert schema["drop"] == ["", "day", "income"] and list(schema["columns"]) == ["Größe", "zip"]
    assert schema["columns"]["zip"] == {"role": "categorical"}
    assert "Größe" in (tmp_path / "schema.yaml").read_text()
    made(tmp_path / "made", {"t.csv": text}, schema)


def test_other_tables_beside_it_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("city\na\n")
    (tmp_path / "more.csv").write_text("label,city\n1,a\n")
    text = rows_of("city,label", city=lambda row: "ab"[row % 2], label=lambda row: row % 2)
    assert guessed(tmp_path, text)["files"] == ["more.csv", "t.csv"]


@pytest.mark.parametrize(
    ("content", "words", "told"),
    [
        ("sep=;\nuser;item;time\n1;2;3\n", [], "remove what stands above the names of the columns"),
        ("x,label\n1,0\n1,1\n", [], "no column but the label 'label' is worth learning from"),
        ("39,a,b\n40,a,c\n", ["--label", "income"], "If its first line is a row, write a line with the columns' names"),
        ("user,item\n1,\n2,\n", ["--label", "item"], "'item' has no value to predict"),
        ("user,item,time\n1,2,3\n4,5,6\n", [], "name the label with --label COLUMN"),
        ("user,item\n1,2\n", ["--label", "cliked"], "has no column 'cliked'; it has user, item"),
        ("user,item\n", [], "has no rows"),
    ],
)
def test_what_has_no_schema_is_one_line(
    content: str, words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text(content)
    assert main(["init-schema", str(tmp_path / "t.csv"), *words]) == 2
    assert told in capsys.readouterr().err and not (tmp_path / "schema.yaml").exists()


def test_a_schema_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text(table())
    (tmp_path / "schema.yaml").write_text("mine")
    assert main(["init-schema", str(tmp_path / "t.csv")]) == 2
    assert "exists and is not overwritten" in capsys.readouterr().err
    assert (tmp_path / "schema.yaml").read_text() == "mine"


def test_a_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init-schema", str(tmp_path)]) == 2
    assert "is a folder; name one of the tables in it" in capsys.readouterr().err
