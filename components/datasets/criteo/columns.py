"""The columns of the data set, in the order of the raw files, and the lines that Arrow's CSV reader parses to them.

Categories are values of eight hexadecimal digits. Malformed lines are returned beside the table.
"""

from __future__ import annotations

import binascii
import io
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from components.workflows.quarantine import BadLine
from components.workflows.text_blocks import Block

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
# Smaller integers are clipped to this one, whose logarithm is 0, as for missing ones.
SMALLEST = -2
_FIELDS = 1 + len(NUMERICAL) + len(CATEGORICAL)
_INTEGER, _HEX = re.compile(rb"-?\d{1,18}"), re.compile(rb"[0-9a-fA-F]{8}")
_READ = pv.ReadOptions(column_names=LINE.names, block_size=1 << 20)
_PARSE = pv.ParseOptions(delimiter="\t", quote_char=False)
_CONVERT = pv.ConvertOptions(
    column_types={
        LABEL: pa.int8(),
        **dict.fromkeys(NUMERICAL, pa.int64()),
        **dict.fromkeys(CATEGORICAL, pa.binary(DIGITS)),
    },
    null_values=[""],
    strings_can_be_null=True,
)
# Characters that Arrow accepts around or in an integer.
_ODD = (b" ", b"x", b"X")


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


def parse_lines(block: Block) -> tuple[pa.Table, list[BadLine]]:
    """The lines of a block, in order, as a table of the schema ``LINE``, and the malformed ones.

    A line has a label 0 or 1, 13 integers and 26 values of eight hexadecimal digits, separated by tabs; all but the
    label may be empty. Blank lines are skipped.
    """
    table = None if any(odd in block.text for odd in _ODD) else _parse_at_once(block.text)
    if table is not None:
        return table, []
    good, bad = _split_malformed(block)
    table = _parse_at_once(good)
    assert table is not None, "Arrow refuses a line that is well-formed"
    return table, bad


def _parse_at_once(text: bytes) -> pa.Table | None:
    """The table, or None if a line is malformed."""
    if not text.strip(b"\r\n"):
        return LINE.empty_table()
    try:
        raw = pv.read_csv(pa.BufferReader(text), read_options=_READ, parse_options=_PARSE, convert_options=_CONVERT)
    except pa.ArrowInvalid:
        return None
    label = raw[LABEL]
    if label.null_count or not 0 <= pc.min(label).as_py() <= pc.max(label).as_py() <= 1:
        return None
    columns = [label, *(logarithms(raw[name]) for name in NUMERICAL)]
    for name in CATEGORICAL:
        values = parse_hexadecimal(raw[name].combine_chunks())
        if values is None:
            return None
        columns.append(values)
    return pa.table(columns, schema=LINE)


def logarithms(integers: pa.ChunkedArray | pa.Array) -> pa.Array:
    """``ln(x + 3)``, 0 for a null."""
    numbers = pc.fill_null(integers, SMALLEST).to_numpy()
    return pa.array(np.log(np.maximum(numbers, SMALLEST) + 3.0).astype(np.float32))


def _split_malformed(block: Block) -> tuple[bytes, list[BadLine]]:
    """The text of the well-formed lines, and the malformed lines."""
    good, bad = [], []
    for number, line in enumerate(io.BytesIO(block.text), start=block.first_line):
        content = line.rstrip(b"\r\n")
        if not content:
            continue
        reason = _problem(content.split(b"\t"))
        if reason:
            bad.append(BadLine(number, reason, content))
        else:
            good.append(content)
    return b"\n".join(good), bad


def _problem(fields: list[bytes]) -> str:
    """What is wrong with the fields of a line; empty if nothing is."""
    if len(fields) != _FIELDS:
        return f"{len(fields)} fields instead of {_FIELDS}"
    if fields[0] not in (b"0", b"1"):
        return f"the label is {_quoted(fields[0])}, not 0 or 1"
    for name, field in zip(NUMERICAL, fields[1:], strict=False):
        if field and not _INTEGER.fullmatch(field):
            return f"{name} is {_quoted(field)}, not an integer"
    for name, field in zip(CATEGORICAL, fields[1 + len(NUMERICAL) :], strict=True):
        if field and not _HEX.fullmatch(field):
            return f"{name} is {_quoted(field)}, not {DIGITS} hexadecimal digits"
    return ""


def _quoted(field: bytes) -> str:
    return repr(field[:30].decode("utf-8", "backslashreplace"))
