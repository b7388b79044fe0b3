"""CRC32C (Castagnoli) of TFRecord frames: with the CPU's instruction, or with tables on CPUs without it."""

from __future__ import annotations

import numpy as np

from components.native.compiled import kernel
from components.native.words import HAS_CRC32C, crc32c_u64, load_u64

_POLYNOMIAL = np.uint32(0x82F63B78)
_BYTE = np.uint64(0xFF)
_EIGHT = np.uint64(8)
_ONES = np.uint64(0xFFFFFFFF)
# Bytes in each of three adjacent blocks whose CRCs are interleaved to hide the instruction's latency; a power of two.
_RUN = 1024


def _tables() -> np.ndarray:
    """Row k maps a byte to its CRC after k further zero bytes (slicing by eight)."""
    tables = np.zeros((8, 256), np.uint64)
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = np.where(crc & 1, (crc >> 1) ^ _POLYNOMIAL, crc >> 1)
    tables[0] = crc
    for k in range(1, 8):
        crc = (crc >> 8) ^ tables[0][crc & 0xFF].astype(np.uint32)
        tables[k] = crc
    return tables


_TABLES = _tables()


def _table_past_zeros() -> np.ndarray:
    """Row k maps byte k of a CRC to its contribution after a block of zero bytes."""
    crc = np.arange(256, dtype=np.uint64) << (8 * np.arange(4, dtype=np.uint64)[:, None])
    table = crc >> _EIGHT ^ _TABLES[0][crc & _BYTE]
    for _ in range(_RUN.bit_length() - 1):
        table = np.bitwise_xor.reduce([table[k][table >> np.uint64(8 * k) & _BYTE] for k in range(4)])
    return table


_PAST_ZEROS = _table_past_zeros()


@kernel
def _eight_by_table(crc, word):  # type: ignore[no-untyped-def]
    word ^= crc
    crc = np.uint64(0)
    for k in range(8):
        crc ^= _TABLES[7 - k, word & _BYTE]
        word >>= _EIGHT
    return crc


@kernel
def _eight_by_instruction(crc, word):  # type: ignore[no-untyped-def]
    return crc32c_u64(crc, word)


_eight = _eight_by_instruction if HAS_CRC32C else _eight_by_table


@kernel
def _past_zeros(crc):  # type: ignore[no-untyped-def]
    """The CRC after a block of zero bytes."""
    moved = np.uint64(0)
    for k in range(4):
        moved ^= _PAST_ZEROS[k, crc & _BYTE]
        crc >>= _EIGHT
    return moved


@kernel
def crc32c(data, start, end):  # type: ignore[no-untyped-def]
    """CRC32C of ``data[start:end]``, as uint64 below 2**32. Needs no slack."""
    crc = _ONES
    while end - start >= 3 * _RUN:
        second, third = np.uint64(0), np.uint64(0)
        for at in range(start, start + _RUN, 8):
            crc = _eight(crc, load_u64(data, at))
            second = _eight(second, load_u64(data, at + _RUN))
            third = _eight(third, load_u64(data, at + 2 * _RUN))
        # CRCs are linear: the CRC of concatenated blocks is that of the first, shifted past the rest, XOR theirs.
        crc = _past_zeros(_past_zeros(crc) ^ second) ^ third
        start += 3 * _RUN
    while end - start >= 8:
        crc = _eight(crc, load_u64(data, start))
        start += 8
    while start < end:
        crc = _TABLES[0, (crc ^ np.uint64(data[start])) & _BYTE] ^ (crc >> _EIGHT)
        start += 1
    return crc ^ _ONES


@kernel
def masked_crc32c(data, start, end):  # type: ignore[no-untyped-def]
    """The masked CRC of the TFRecord format: rotated and offset, so that the data may contain CRCs."""
    crc = crc32c(data, start, end)
    return ((crc >> np.uint64(15) | crc << np.uint64(17)) + np.uint64(0xA282EAD8)) & _ONES
