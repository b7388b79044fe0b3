"""TFRecord frames: length (uint64), masked CRC of the length, data, masked CRC of the data.

The converter writes ``part_0.tfrecord.index`` next to ``part_0.tfrecord``: a .npy of int64 with the offset of each
frame and, as last entry, the size of the file. If it is missing, the frames are scanned once.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from components.errors import KfrecError
from components.native import arrays
from components.native.compiled import kernel
from components.records.words import LOW_HALF, SLACK, load_u64, store_u64

HEADER = 12
FOOTER = 4
_WINDOW = 32 << 20
_POLYNOMIAL = np.uint32(0x82F63B78)
_BYTE = np.uint64(0xFF)
_EIGHT = np.uint64(8)
_REMEDY = "run the tfrecord step again, or replace the file"


def index_path(records: Path) -> Path:
    """The path of a record file's index."""
    return records.with_name(records.name + ".index")


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


@kernel
def _eight(crc, word):  # type: ignore[no-untyped-def]
    word ^= crc
    crc = np.uint64(0)
    for k in range(8):
        crc ^= _TABLES[7 - k, word & _BYTE]
        word >>= _EIGHT
    return crc


@kernel
def crc32c(data, start, end):  # type: ignore[no-untyped-def]
    """CRC32C of ``data[start:end]``, as uint64 below 2**32. Needs no slack."""
    crc = LOW_HALF
    while end - start >= 8:
        crc = _eight(crc, load_u64(data, start))
        start += 8
    while start < end:
        crc = _TABLES[0, (crc ^ np.uint64(data[start])) & _BYTE] ^ (crc >> _EIGHT)
        start += 1
    return crc ^ LOW_HALF


@kernel
def masked_crc32c(data, start, end):  # type: ignore[no-untyped-def]
    """The masked CRC of the TFRecord format: rotated and offset, so that the data may contain CRCs."""
    crc = crc32c(data, start, end)
    return ((crc >> np.uint64(15) | crc << np.uint64(17)) + np.uint64(0xA282EAD8)) & LOW_HALF


@kernel
def frame_size(data, at):  # type: ignore[no-untyped-def]
    """Bytes of data in the frame at ``data[at]``, or -1 where no frame begins."""
    stored = load_u64(data, at + 8) & LOW_HALF
    if masked_crc32c(data, at, at + 8) != stored:
        return -1
    return np.int64(load_u64(data, at))


@kernel
def write_frame(out, at, end):  # type: ignore[no-untyped-def]
    """Writes header and footer around the data at ``out[at + HEADER : end]``; returns the frame's end."""
    header = load_u64(out, at + HEADER)  # storing the CRC below as a word overwrites data
    store_u64(out, at, np.uint64(end - at - HEADER))
    store_u64(out, at + 8, masked_crc32c(out, at, at + 8) & LOW_HALF)
    store_u64(out, at + HEADER, header)
    store_u64(out, end, masked_crc32c(out, at + HEADER, end) & LOW_HALF)
    return end + FOOTER


@kernel
def _walk(data, size, offsets):  # type: ignore[no-untyped-def]
    """Stores the offsets of the whole frames in ``data[:size]``; returns their number, end, and the wanted size."""
    at = 0
    count = 0
    while size - at >= HEADER and count < len(offsets):
        inside = frame_size(data, at)
        # A length near 2**63 would overflow in a sum.
        if inside < 0 or inside > size - at - HEADER - FOOTER:
            return count, at, inside
        offsets[count] = at
        count += 1
        at += inside + HEADER + FOOTER
    return count, at, 0


def load_index(records: Path) -> np.ndarray:
    """Frame offsets of a record file, int64 [records + 1].

    Raises:
        KfrecError: the file is missing, truncated, not made of frames, or differs from its index.
    """
    try:
        size = records.stat().st_size
    except FileNotFoundError:
        raise KfrecError(
            f"{records}: missing, but feature_spec.yaml lists it; restore it, or run the tfrecord step again"
        ) from None
    index = index_path(records)
    if not index.exists():
        return scan_frames(records)
    try:
        offsets = np.load(index, mmap_mode="r")
    except (ValueError, EOFError):
        offsets = None
    if not isinstance(offsets, np.ndarray):  # an archive of arrays is not one
        raise KfrecError(f"{index}: not an index; delete it, or run the tfrecord step again")
    fits = offsets.ndim == 1 and offsets.dtype == np.int64 and len(offsets) and offsets[0] == 0 and offsets[-1] == size
    # Differences of offsets outside of the file may overflow.
    if not fits or offsets.min() < 0 or offsets.max() > size or (np.diff(offsets) < HEADER + FOOTER).any():
        raise KfrecError(f"{records}: {size} bytes do not match {index.name}; {_REMEDY}")
    return offsets


def scan_frames(records: Path) -> np.ndarray:
    """Scans the frames of a record file; as ``load_index``, without the index."""
    chunks = [np.zeros(1, np.int64)]
    size = records.stat().st_size
    done = 0
    window = _WINDOW
    with records.open("rb") as file:
        while done < size:
            data = read_range(file.fileno(), records, done, min(window, size - done))
            offsets = np.empty(len(data) // (HEADER + FOOTER), np.int64)
            count, _, inside = _walk(data, len(data) - SLACK, offsets)
            if count:
                ends = np.append(offsets[1:count], _)
                chunks.append(ends + done)
                done += int(_)
                continue
            record, inside = sum(map(len, chunks)) - 1, int(inside)
            if inside < 0:
                if not done and bytes(data[:2]) == b"\x1f\x8b":
                    raise KfrecError(f"{records}: is compressed by gzip; decompress it: kfrec reads plain records")
                raise KfrecError(f"{records}: record {record}: no TFRecord frame at byte {done}; {_REMEDY}")
            if size - done < inside + HEADER + FOOTER or size - done < HEADER:
                raise KfrecError(
                    f"{records}: truncated: record {record} begins at byte {done} and the file ends at byte {size}, "
                    f"within it; {_REMEDY}"
                )
            window = inside + HEADER + FOOTER  # one record larger than the window
    return np.concatenate(chunks)


def read_range(descriptor: int, path: Path, begin: int, size: int) -> np.ndarray:
    """``size`` bytes of an open file as uint8, with words.SLACK zero bytes behind them."""
    data = arrays.empty([size + SLACK], np.uint8)
    data[size:] = 0
    view = data.data[:size]
    done = 0
    while done < size:
        read = os.preadv(descriptor, [view[done:]], begin + done)
        if read == 0:
            raise KfrecError(f"{path}: ends at byte {begin + done}, {size - done} bytes early; {_REMEDY}")
        done += read
    return data
