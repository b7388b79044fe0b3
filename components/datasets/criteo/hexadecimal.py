"""Values of eight hexadecimal digits to numbers and back, many at a time."""

from __future__ import annotations

import binascii

import numpy as np
import pyarrow as pa

DIGITS = 8


def parse(texts: pa.FixedSizeBinaryArray) -> pa.UInt32Array | None:
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


def write(numbers: np.ndarray) -> pa.StringArray:
    """The eight-digit texts of fewer than 2**28 uint32 numbers."""
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(DIGITS)
    texts = binascii.hexlify(numbers.astype(">u4").tobytes())
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(texts))
