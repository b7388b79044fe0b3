"""The columns of samples in parquet, in the published order."""

from __future__ import annotations

import pyarrow as pa

ROW_GROUP = 32_768
_LIST = pa.list_(pa.field("element", pa.int32(), nullable=False))
SAMPLE = pa.schema(
    [
        pa.field("label", pa.int8(), nullable=False),
        *(pa.field(name, pa.int32(), nullable=False) for name in ("uid", "item", "cat")),
        *(pa.field(f"{name}_sequence", _LIST, nullable=False) for name in ("item", "cat", "neg_item", "neg_cat")),
    ]
)
