"""The parquet files of a split: their order, their checks, and their rows a batch at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts import Artifact
from components.errors import KfrecError
from components.feature_spec.spec import FILENAME
from components.tfrecord.schema import Column

_BATCH_ROWS = 8192
_READ_BUFFER = 1 << 20


@dataclass(frozen=True)
class RowGroup:
    """A row group of a part file, the unit that one worker reads.

    Attributes:
        values: leaf values of each column, as the footer counts them.
    """

    path: Path
    names: tuple[str, ...]
    index: int
    first_row: int
    rows: int
    values: tuple[int, ...]

    def batches(self, columns: Sequence[str] | None = None, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Its rows in order, in batches, read through a small buffer.

        Raises:
            KfrecError: the file is corrupt.
        """
        left, names = self.rows, list(columns or self.names)
        try:
            with pq.ParquetFile(self.path, buffer_size=_READ_BUFFER, pre_buffer=False) as file:
                # Without Arrow's own threads: each of the step's threads reads a row group.
                for batch in file.iter_batches(rows, [self.index], names, use_threads=False):
                    left -= batch.num_rows
                    # Columns come in file order.
                    yield batch if batch.schema.names == names else batch.select(names)
            if left:
                raise pa.ArrowInvalid(f"row group {self.index} does not hold the {self.rows} rows of its footer")
        except (pa.ArrowException, OSError) as error:
            raise _corrupt(self.path, error) from None


def row_groups(parquet: Artifact, split: str, columns: Sequence[Column], may_be_empty: bool = False) -> list[RowGroup]:
    """The row groups of a split; part files are in the order of the numbers in their names.

    Args:
        may_be_empty: whether the split needs no rows.

    Raises:
        KfrecError: no part files, no rows, a corrupt file, or columns that do not fit their description.
    """
    paths = sorted(parquet.paths(f"{split}/*.parquet"), key=_numeric)
    if not paths:
        raise KfrecError(f"{parquet.path / split}: no *.parquet files; put the {split} samples there")
    groups: list[RowGroup] = []
    first_row = 0
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                metadata, schema = file.metadata, file.schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise _corrupt(path, error) from None
        names = _check(path, schema, columns)
        positions = {name: number for number, name in enumerate(schema.names)}
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            values = tuple(group.column(positions[name]).num_values for name in names)
            groups.append(RowGroup(path, names, index, first_row, group.num_rows, values))
            first_row += group.num_rows
    if not first_row and not may_be_empty:
        raise KfrecError(f"{parquet.path / split}: its files hold no samples; check what wrote them")
    return groups


def _numeric(path: Path) -> list[tuple[int, str]]:
    """Sorts part.2 before part.10."""
    return [(int(piece), "") if piece.isdigit() else (0, piece) for piece in re.split(r"(\d+)", path.name)]


def _check(path: Path, schema: pa.Schema, columns: Sequence[Column]) -> tuple[str, ...]:
    """Checks a file's columns; returns their names in the order of ``columns``."""
    names = tuple(column.name for column in columns)
    if absent := [name for name in names if name not in schema.names]:
        raise KfrecError(f"{path}: has no column {absent[0]}, which {FILENAME} describes; add it")
    for column, name in zip(columns, names, strict=True):
        kind = schema.field(name).type
        value = kind.value_type if _is_list(kind) else kind
        if _is_list(kind) != column.is_list or not _holds(value, column):
            wanted = ("lists of " if column.is_list else "") + ("numbers" if column.is_float else "integers")
            raise KfrecError(f"{path}: column {name} is of type {kind}, but it must hold {wanted}; check {FILENAME}")
    return names


def _holds(value: pa.DataType, column: Column) -> bool:
    if column.is_float:
        return pa.types.is_floating(value) or pa.types.is_integer(value)
    return pa.types.is_integer(value) or (column.is_bool and pa.types.is_boolean(value))


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _corrupt(path: Path, error: Exception) -> KfrecError:
    return KfrecError(f"{path}: cannot be read as parquet ({' '.join(str(error).split())}); write it again")
