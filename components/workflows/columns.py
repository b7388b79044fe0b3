"""List columns of a data frame as flat arrays and back, with numpy and pandas or with cupy and cuDF."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from components.workflows.nvtabular_quiet import cudf, cupy, dispatch


def data_frame(table: pa.Table) -> Any:
    """A table as a data frame of cuDF where there is a GPU, of pandas elsewhere."""
    return table.to_pandas() if cudf is None else cudf.DataFrame.from_arrow(table)


def array_module(frame: Any) -> Any:
    """numpy for a pandas data frame or series, cupy for one of cuDF."""
    return np if dispatch.is_cpu_object(frame) else cupy


def flat_lists(column: Any) -> tuple[Any, Any]:
    """Values and offsets of a list column.

    Returns:
        values: all lists concatenated.
        offsets: int64 [rows + 1]; list i is values[offsets[i]:offsets[i + 1]].
    """
    xp = array_module(column)
    if xp is np:
        lengths = np.fromiter(map(len, column), np.int64, len(column))
        values = np.concatenate([np.zeros(0, np.int32), *column])
    else:
        lengths = column.list.len().values.astype(xp.int64)
        values = column.list.leaves.values
    offsets = xp.zeros(len(lengths) + 1, xp.int64)
    offsets[1:] = xp.cumsum(lengths)
    return values, offsets


def list_column(matrix: Any) -> Any:
    """A list column of the rows of a matrix.

    On the CPU the lists stay one Arrow array inside pandas: a Python object per row would cost more than all the rest.
    """
    rows, length = matrix.shape
    if isinstance(matrix, np.ndarray):
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(length))
        return pd.Series(pd.arrays.ArrowExtensionArray(pa.ListArray.from_arrays(offsets, pa.array(matrix.ravel()))))
    offsets = cupy.arange(rows + 1, dtype=cupy.int32) * cupy.int32(length)
    return dispatch.build_cudf_list_column(matrix.ravel(), offsets)
