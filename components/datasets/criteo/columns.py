"""The columns of the data set, in the order of the raw files."""

from __future__ import annotations

import pyarrow as pa

LABEL = "label"
NUMERICAL = tuple(f"int_{number}" for number in range(1, 14))
CATEGORICAL = tuple(f"cat_{number}" for number in range(1, 27))

# Raw lines: ln(x + 3) of the integers, 0 if missing; hexadecimal values as numbers, null if missing.
LINE = pa.schema(
    [
        pa.field(LABEL, pa.int8()),
        *(pa.field(name, pa.float32()) for name in NUMERICAL),
        *(pa.field(name, pa.uint32()) for name in CATEGORICAL),
    ]
)
# Samples: ids in place of the values.
SAMPLE = pa.schema(
    [
        pa.field(LABEL, pa.int8(), nullable=False),
        *(pa.field(name, pa.float32(), nullable=False) for name in NUMERICAL),
        *(pa.field(name, pa.int32(), nullable=False) for name in CATEGORICAL),
    ]
)
