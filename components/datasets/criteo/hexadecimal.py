"""Values of eight hexadecimal digits to numbers and back, many at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

DIGITS = 8
_INVALID = np.uint8(0xF0)
_TEXT = np.frombuffer(b"0123456789abcdef", np.uint8)
# Accepts the zeros that Arrow writes for a null.
_VALUE = np.full(256, _INVALID, np.uint8)
_VALUE[0] = 0
_VALUE[_TEXT] = np.arange(16)
_VALUE[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def parse(texts: pa.FixedSizeBinaryArray) -> pa.UInt32Array | None:
    """The numbers, null where the text is null; None if a text has a non-digit character.

    Args:
        texts: eight characters each, most significant digit first, without a NUL.
    """
    _, data = texts.buffers()
    characters = np.frombuffer(data, np.uint8, DIGITS * len(texts), DIGITS * texts.offset)
    digits = _VALUE[characters].view(np.uint64)
    if (digits & np.uint64(0xF0F0F0F0F0F0F0F0)).any():
        return None
    # The first digit is the lowest byte: joins neighbours three times, to 8, 16 and 32 bits.
    for width, mask in ((4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF), (16, 0x00000000FFFFFFFF)):
        digits = (digits << np.uint64(width) | digits >> np.uint64(2 * width)) & np.uint64(mask)
    missing = texts.is_null().to_numpy(zero_copy_only=False) if texts.null_count else None
    return pa.array(digits.astype(np.uint32), mask=missing)


def write(numbers: np.ndarray) -> pa.StringArray:
    """The eight-digit texts of fewer than 2**28 uint32 numbers."""
    shifts = np.arange(4 * (DIGITS - 1), -1, -4, dtype=np.uint32)
    texts = np.empty((len(numbers), DIGITS), np.uint8)
    for place, shift in enumerate(shifts):
        texts[:, place] = _TEXT[(numbers >> shift) & np.uint32(15)]
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(DIGITS)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(texts))
