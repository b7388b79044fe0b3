"""The columns of the data set, in the order of the raw files, and their values of eight hexadecimal digits."""

from __future__ import annotations

import binascii

import numpy as np
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


DIGITS = 8


def parse_hexadecimal(texts: pa.FixedSizeBinaryArray) -> pa.UInt32Array | None:
    """The numbers, null where the text is null; None if a text has a non-digit character.

    Args:
        texts: eight characters each, most significant digit first.
    """
    missing = texts.is_null().to_numpy(zero_copy_only=False) if texts.null_count else None
    filled = texts if missing is None else texts.fill_null(b"0" * DIGITS)
    characters = memoryview(filled.buffers()[1])[DIGITS * filled.offset :][: DIGITS * len(filled)]
    try:
        numbers = np.frombuffer(binascii.unhexlify(characters), ">u4")
    except binascii.Error:
        return None
    return pa.array(numbers.astype(np.uint32), mask=missing)


def write_hexadecimal(numbers: np.ndarray) -> pa.StringArray:
    """The eight-digit texts of fewer than 2**28 uint32 numbers."""
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(DIGITS)
    texts = binascii.hexlify(numbers.astype(">u4").tobytes())
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(texts))
