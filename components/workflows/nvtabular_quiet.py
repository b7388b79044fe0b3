"""Dask, NVTabular and Merlin without their warnings and needless imports: import them from here, never directly.

Merlin of 2023 knows Dask's legacy data frames only, and lists of strings as they are: by default Dask makes each list a
string. Importing NVTabular imports TensorFlow where it is installed, which costs every worker seconds and some 300 MB
and is of no use here; it warns that there is no PyTorch and no Triton, and, for every data set, that there is no GPU.
"""

from __future__ import annotations

import sys
import warnings

import dask
import numpy as np
import pandas as pd
import pyarrow as pa

dask.config.set({"dataframe.query-planning": False, "dataframe.convert-string": False})
for _category, _expected in (
    (FutureWarning, r"The legacy Dask DataFrame implementation"),
    (FutureWarning, r"\s*Dask dataframe query planning is disabled"),
    (Warning, "(PyTorch|Triton|Tensorflow) dtype mappings did not load"),
    (Warning, "Initializing an NVTabular Dataset in CPU mode"),
):
    warnings.filterwarnings("ignore", message=_expected, category=_category)

_without_tensorflow = "tensorflow" not in sys.modules
if _without_tensorflow:
    sys.modules["tensorflow"] = None  # type: ignore[assignment]  # An import of it fails until the entry is gone.
try:
    from dask import dataframe
    from merlin.dag import ColumnSelector
    from merlin.io import Dataset
    from merlin.schema import ColumnSchema, Schema
    from nvtabular import Workflow, ops
finally:
    if _without_tensorflow:
        del sys.modules["tensorflow"]

__all__ = ["ColumnSchema", "ColumnSelector", "Dataset", "Schema", "Workflow", "dataframe", "list_column", "ops"]


def list_column(matrix: np.ndarray) -> pd.Series:
    """A list column of the rows of a matrix.

    The lists stay one Arrow array inside pandas: a Python object per row would cost more than all the rest.
    """
    rows, length = matrix.shape
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(length))
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.ListArray.from_arrays(offsets, pa.array(matrix.ravel()))))
