"""Small parquet files whose content is large in memory, refused before they are decoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.errors import KfrecError

# What distinct values may take for each byte of a file: repeated values, and zeros, compress much better.
_BYTES, _ROWS = 100, 16
_FREE = 64 << 20


def read_bounded(path: Path, columns: list[str]) -> pa.Table:
    """Columns of a file of distinct values; text is read by its dictionary, and expanded only if it is short enough.

    Raises:
        KfrecError: the columns would take far more memory than the file has bytes.
        OSError, pyarrow.ArrowException, KeyError: as of pyarrow.parquet.read_table.
    """
    size = path.stat().st_size
    with pq.ParquetFile(path) as file:
        texts = [field.name for field in file.schema_arrow if field.name in columns and _is_text(field.type)]
        if lacking := [name for name in columns if name not in file.schema_arrow.names]:
            raise KeyError(f"no column {lacking[0]}")
        metadata = file.metadata
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        declared = sum(group.column(place).total_uncompressed_size for group in groups
                       for place in range(metadata.num_columns))  # fmt: skip
        _require(path, declared, size, f"{declared:,} bytes")
        _require(path, metadata.num_rows, size, f"{metadata.num_rows:,} rows", _ROWS, _FREE // 8)
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read(columns)
    expanded = {}
    for name in columns:
        column = table[name]
        if name in texts:
            long = sum(_expanded(chunk) for chunk in column.chunks)
            _require(path, long, size, f"{long:,} bytes of {name}")
            column = pa.chunked_array([_decoded(chunk) for chunk in column.chunks], pa.large_string())
        expanded[name] = column
    return pa.table(expanded)


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _expanded(chunk: pa.Array) -> int:
    """Bytes of a chunk's texts."""
    if not pa.types.is_dictionary(chunk.type):
        return chunk.nbytes
    lengths = pc.fill_null(pc.binary_length(chunk.dictionary), 0).to_numpy(zero_copy_only=False)
    indices = chunk.indices.drop_null().to_numpy()
    return int(lengths.astype(np.int64)[indices].sum()) if len(lengths) else 0


def _decoded(chunk: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(chunk.type):
        return chunk.dictionary.cast(pa.large_string()).take(chunk.indices)
    return chunk.cast(pa.large_string())


def _require(path: Path, found: int, size: int, what: str, per_byte: int = _BYTES, free: int = _FREE) -> None:
    if found > per_byte * size + free:
        raise KfrecError(f"{path}: has {size:,} bytes and would take {what} in memory, which no vocabulary does")
