"""List columns of a data frame as flat arrays and back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa


def flat_lists(column: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Values and offsets of a list column.

    Returns:
        values: all lists concatenated.
        offsets: int64 [rows + 1]; list i is values[offsets[i]:offsets[i + 1]].
    """
    offsets = np.zeros(len(column) + 1, np.int64)
    offsets[1:] = np.cumsum(np.fromiter(map(len, column), np.int64, len(column)))
    return np.concatenate([np.zeros(0, np.int32), *column]), offsets


def list_column(matrix: np.ndarray) -> pd.Series:
    """A list column of the rows of a matrix.

    The lists stay one Arrow array inside pandas: a Python object per row would cost more than all the rest.
    """
    rows, length = matrix.shape
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(length))
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.ListArray.from_arrays(offsets, pa.array(matrix.ravel()))))
