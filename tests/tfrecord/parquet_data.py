"""Small parquet artifacts in the public layout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts import adopt
from components.feature_spec.positional import read_positional
from components.feature_spec.spec import FILENAME

CARDINALITIES = {"uid": 500, "item": 1_000_000, "cat": 90}


def samples(rows: int, *, history: int = 12, negatives: int = 3, ragged: bool = False) -> dict[str, list]:
    """Random samples, column by column; ragged histories have 0 to ``history`` items."""
    rng = np.random.default_rng(rows)
    sizes = rng.integers(0, history, rows, endpoint=True) if ragged else np.full(rows, history)

    def ids(name: str, count: int) -> list[int]:
        # Powers make ids of every varint length.
        return (1 + CARDINALITIES[name] * rng.random(count) ** 5).astype(np.int64).tolist()

    return {
        "label": rng.integers(0, 2, rows).tolist(),
        "uid": ids("uid", rows),
        "item": ids("item", rows),
        "cat": ids("cat", rows),
        "item_sequence": [ids("item", size) for size in sizes.tolist()],
        "cat_sequence": [ids("cat", size) for size in sizes.tolist()],
        "neg_item_sequence": [ids("item", negatives) for _ in range(rows)],
        "neg_cat_sequence": [ids("cat", negatives) for _ in range(rows)],
    }


def table(columns: dict[str, list], integer: pa.DataType | None = None) -> pa.Table:
    integer = integer or pa.int64()
    kinds = {name: pa.list_(integer) if name.endswith("sequence") else integer for name in columns}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})


def write_parts(folder: Path, whole: pa.Table, parts: int = 1, row_group_size: int = 1 << 20) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, len(whole), parts + 1).astype(int)
    for number, (begin, end) in enumerate(pairwise(bounds)):
        pq.write_table(whole.slice(begin, end - begin), folder / f"part.{number}.parquet", row_group_size)


def write_metadata(folder: Path, cardinalities: dict[str, int], names: Sequence[str] | None = None) -> None:
    entries = [{"name": name, "value": cardinalities[name]} for name in names or cardinalities]
    (folder / "metadata.json").write_text(json.dumps({"cardinalities": entries}))


def artifact(
    folder: Path,
    train: pa.Table,
    test: pa.Table,
    parts: int = 1,
    row_group_size: int = 1 << 20,
    validation: pa.Table | None = None,
) -> Path:
    write_parts(folder / "train", train, parts, row_group_size)
    write_parts(folder / "test", test)
    if validation is not None:
        write_parts(folder / "validation", validation)
    write_metadata(folder, CARDINALITIES)
    return described(folder)


def described(folder: Path, number_of_user_features: int = 1) -> Path:
    """Accepts a folder in the positional layout."""
    (folder / FILENAME).write_text(read_positional(folder, number_of_user_features).to_yaml())
    adopt(folder)
    return folder
