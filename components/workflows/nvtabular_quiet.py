"""NVTabular and Merlin without their warnings and needless imports: import them from here, never directly.

Importing NVTabular imports TensorFlow where it is installed, which costs every worker seconds and some 300 MB and is
of no use here; it warns that there is no PyTorch and no Triton, and, for every data set, that there is no GPU.
"""

from __future__ import annotations

import sys
import warnings

from components.workflows import configured_dask  # before Merlin imports Dask

for _expected in (
    "(PyTorch|Triton|Tensorflow) dtype mappings did not load",
    "Initializing an NVTabular Dataset in CPU mode",
):
    warnings.filterwarnings("ignore", message=_expected)

_without_tensorflow = "tensorflow" not in sys.modules
if _without_tensorflow:
    sys.modules["tensorflow"] = None  # type: ignore[assignment]  # An import of it fails until the entry is gone.
try:
    from merlin.dag import ColumnSelector
    from merlin.io import Dataset
    from merlin.schema import ColumnSchema, Schema
    from nvtabular import Workflow, ops
finally:
    if _without_tensorflow:
        del sys.modules["tensorflow"]

assert configured_dask.dask
__all__ = ["ColumnSchema", "ColumnSelector", "Dataset", "Schema", "Workflow", "ops"]
