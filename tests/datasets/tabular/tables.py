"""Small tables with a schema, and how to read what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from components.artifacts import adopt
from tests.preprocess import running

preprocess = partial(running.preprocess, dataset="tabular")

CSV = """\
bought,price,city,tags,month
1,1.0,Rome,a|b,1
0,2.0,Oslo,a,1
1,NA,Rome,,2
0,3.0, Rome ,c|a|b,2
1,6.0,,b,3
0,4.0,Bonn,d,3
"""
SCHEMA: dict[str, Any] = {
    "label": {"column": "bought"},
    "split": {"by": "column", "column": "month", "test": [3]},
    "columns": {
        "price": {"role": "numeric"},
        "city": {"role": "categorical"},
        "tags": {"role": "multihot", "longest": 2},
    },
}


def raw_folder(folder: Path, tables: Mapping[str, str | bytes | pa.Table], schema: Mapping[str, Any] | str) -> Path:
    """A raw artifact: tables by file name, and schema.yaml."""
    folder.mkdir(parents=True)
    for name, content in tables.items():
        if isinstance(content, pa.Table):
            pq.write_table(content, folder / name)
        else:
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (folder / "schema.yaml").write_text(schema if isinstance(schema, str) else yaml.safe_dump(dict(schema)))
    adopt(folder)
    return folder


def made(folder: Path, tables: Mapping[str, Any] | str = CSV, schema: Any = SCHEMA, **parameters: Any) -> Path:
    """The output of the step for tables, or for one CSV file."""
    tables = {"table.csv": tables} if isinstance(tables, str) else tables
    preprocess(raw_folder(folder / "raw", tables, schema), folder / "parquet", **parameters)
    return folder / "parquet"


def samples(output: Path, split: str) -> dict[str, list[Any]]:
    """All samples of a split by column, file by file."""
    files = sorted((output / split).glob("part.*.parquet"), key=lambda path: int(path.suffixes[0][1:]))
    return pa.concat_tables(pq.read_table(path) for path in files).to_pydict()


def spec(output: Path) -> dict[str, Any]:
    return yaml.safe_load((output / "feature_spec.yaml").read_text())


def vocabulary(output: Path, name: str) -> list[str]:
    return pq.read_table(output / "vocabulary" / f"{name}.parquet")["value"].to_pylist()


def with_columns(**columns: Any) -> dict[str, Any]:
    """The schema with other columns."""
    return {**SCHEMA, "columns": columns, "drop": ["*"]}
