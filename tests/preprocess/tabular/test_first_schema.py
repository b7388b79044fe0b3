"""kfrec init-schema: a first schema that runs as it is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.cli import main
from tests.preprocess.tabular.tables import made

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


@pytest.mark.parametrize(
    ("content", "words", "told"),
    [
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
