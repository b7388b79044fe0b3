"""Side tables: what a task or a server needs beside the samples and no model reads, such as texts or a catalogue.

They are parquet files ``side_tables/NAME.parquet`` beside ``feature_spec.yaml``, which preprocessing writes. They
travel with the records to the evaluation, and with the model into the registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts.folder import listed_paths
from components.errors import KfrecError
from components.storage.packed import parquet_batches

# The folder of the files, in the artifact of every step.
SIDE_TABLES = "side_tables"
_ROWS = 1 << 14


def side_tables(folder: Path) -> dict[str, Path]:
    """The side tables of an artifact: name to file.

    Raises:
        KfrecError: the manifest does not list a file.
    """
    return {path.stem: path for path in listed_paths(folder, f"{SIDE_TABLES}/*.parquet")}


def read_side_table(tables: Mapping[str, Path], name: str) -> pa.Table:
    """Reads a side table.

    Raises:
        KfrecError: there is no such table, or it is damaged.
    """
    if name not in tables:
        raise KfrecError(f"no side table {name}; the data set has {', '.join(tables) or 'none'}, so prepare it again")
    try:
        batches = parquet_batches(tables[name], _ROWS, str(tables[name]))
        return pa.Table.from_batches(batches, pq.read_schema(tables[name]).remove_metadata())
    except (OSError, pa.ArrowException) as error:
        raise KfrecError(f"{tables[name]}: cannot be read ({str(error).splitlines()[0]}); prepare it again") from None
