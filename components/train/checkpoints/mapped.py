"""The weights in a model's folder, of which a rank reads the parts that it takes.

TensorFlow reads whole tensors, even for a slice of one (``RestoreV2``), so every rank would hold every table: reading a
thousand rows of a table of 256 MB takes 260 MB. Here the file of a SavedModel's variables is mapped into memory, which
the ranks of a machine share. Its index states where each tensor is. It is a table of LevelDB's format, uncompressed,
whose values are ``BundleEntryProto``; blocks and tensors have checksums, which are verified.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto

from components.scoring.model import SAVED_MODEL, TABLES
from components.scoring.signature import damaged
from components.train.whole import DENSE, SPEC

_VARIABLES, _DATA = "variables/variables", ".data-00000-of-00001"
_KEY = "weights/{}/.ATTRIBUTES/VARIABLE_VALUE"  # of what export saves
_MAGIC, _FOOTER, _PLAIN = bytes.fromhex("57fb808b247547db"), 48, b"\0"
_BLOCK = 1 << 24  # bytes whose checksum is taken at a time


@dataclass(frozen=True)
class Mapped:
    """A weight in a file.

    Attributes:
        shape: of the weight.
        open: maps it into memory.
    """

    shape: tuple[int, ...]
    open: Callable[[], np.ndarray]


def has_weights(folder: Path) -> bool:
    """Whether the train step wrote a model here, whole or by table."""
    return (folder / SAVED_MODEL).is_dir() or (folder / TABLES).is_dir()


def map_weights(folder: Path, names: Sequence[str]) -> list[Mapped]:
    """The weights of a model of which :func:`has_weights` is true, in the order of its variables.

    Args:
        folder: of the model.
        names: of the variables, for a model that was written by table; weights of other names are left out.

    Raises:
        KfrecError: they are damaged.
    """
    saved = folder / SAVED_MODEL
    return _of_saved_model(saved) if saved.is_dir() else _of_tables(folder / TABLES, names)


def _of_saved_model(saved: Path) -> list[Mapped]:
    prefix = saved / _VARIABLES
    try:
        entries = {key: BundleEntryProto.FromString(value) for key, value in _index(prefix.with_suffix(".index"))}
    except (OSError, ValueError, IndexError, struct.error, DecodeError) as error:
        raise damaged(saved, error) from error
    found: list[Mapped] = []
    while (key := _KEY.format(len(found)).encode()) in entries:
        found.append(_mapped(saved, prefix.with_name(prefix.name + _DATA), entries[key]))
    return found


def _mapped(saved: Path, file: Path, entry: BundleEntryProto) -> Mapped:
    shape = tuple(dim.size for dim in entry.shape.dim)
    dtype = tf.as_dtype(entry.dtype).as_numpy_dtype

    def mapped() -> np.ndarray:
        try:
            values = np.memmap(file, dtype, "r", entry.offset, shape)
        except (OSError, ValueError) as error:
            raise damaged(saved, error) from error
        if _masked_crc(values.reshape(-1).view(np.uint8)) != entry.crc32c:
            raise damaged(saved, ValueError(f"{file.name}: a checksum differs"))
        return values

    return Mapped(shape, mapped)


def _masked_crc(content: np.ndarray | bytes) -> int:
    """CRC32C of bytes, as TensorFlow stores it."""
    crc = 0
    for begin in range(0, len(content), _BLOCK):
        crc = google_crc32c.extend(crc, content[begin : begin + _BLOCK])
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _index(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """The entries of an index file: blocks, one that states their places, and a footer that states its place.

    Raises:
        ValueError, IndexError: it is damaged.
    """
    content = path.read_bytes()
    if content[-8:] != _MAGIC:
        raise ValueError(f"{path.name}: ends otherwise than an index of TensorFlow")
    footer = memoryview(content)[-_FOOTER:]
    (_, _, *blocks), _ = _numbers(footer, 0, 4)
    for _, place in _entries(content, *blocks):
        yield from _entries(content, *_numbers(place, 0, 2)[0])


def _entries(content: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of one block, whose keys leave out what they share with the key before."""
    block, kind, checksum = struct.unpack_from(f"<{size}scI", content, offset)
    if kind != _PLAIN or _masked_crc(block + kind) != checksum:
        raise ValueError(f"the block at byte {offset} of the index is damaged")
    (restarts,) = struct.unpack("<I", block[-4:])
    place, key = 0, b""
    while place < size - 4 - 4 * restarts:
        (shared, own, length), place = _numbers(block, place, 3)
        key = key[:shared] + block[place : place + own]
        yield key, block[place + own : place + own + length]
        place += own + length


def _numbers(content: bytes | memoryview, place: int, count: int) -> tuple[list[int], int]:
    """So many varints from ``place`` on, and the place after them."""
    found = [0] * count
    for number in range(count):
        shift = 0
        while True:
            byte = content[place]
            place += 1
            found[number] |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
    return found, place


def _of_tables(folder: Path, names: Sequence[str]) -> list[Mapped]:
    try:
        tables = json.loads((folder / SPEC).read_text())["tables"]
        with np.load(folder / DENSE) as arrays:
            dense = {name: arrays[name] for name in arrays.files}
        found = {name: _held(values) for name, values in dense.items()}
        found |= {
            name: _table(folder, table["file"], (table["rows"], table["width"])) for name, table in tables.items()
        }
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise damaged(folder, error) from error
    return [found[name] for name in names if name in found]


def _held(values: np.ndarray) -> Mapped:
    return Mapped(values.shape, lambda: values)


def _table(folder: Path, file: str, shape: tuple[int, int]) -> Mapped:
    def mapped() -> np.ndarray:
        try:
            values: np.ndarray = np.load(folder / file, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise damaged(folder, error) from error
        if values.shape != shape:
            raise damaged(folder, ValueError(f"{file} has shape {list(values.shape)}, not {list(shape)}"))
        return values

    return Mapped(shape, mapped)
