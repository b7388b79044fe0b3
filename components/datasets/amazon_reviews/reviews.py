"""Lines of a reviews file to columns: with Arrow's JSON reader if all lines are valid, else line by line."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from components.datasets.amazon_reviews.names import check_name, decode, load_json
from components.datasets.histories.user_runs import REVIEW
from components.workflows.quarantine import ARRAY, BadLine
from components.workflows.text_blocks import Block, table_of

_PARSE = pj.ParseOptions(explicit_schema=REVIEW, unexpected_field_behavior="ignore")
_READ = pj.ReadOptions(use_threads=True, block_size=1 << 20)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


def parse_reviews(block: Block) -> tuple[pa.Table, list[BadLine]]:
    """The reviews of a block, in order, as a table of the schema ``REVIEW``, and the malformed lines.

    A review is a JSON object with a non-empty text reviewerID, a non-empty text asin and a whole number unixReviewTime;
    other fields are ignored. Blank lines are skipped. ``names`` defines valid names.
    """
    table = _parse_at_once(block.text)
    if table is not None:
        return table, []
    rows, bad = block.parsed(_review)
    return table_of(rows, REVIEW), bad


def _parse_at_once(text: bytes) -> pa.Table | None:
    """The table, or None if a line needs the slow path."""
    try:
        table = pj.read_json(pa.BufferReader(text), read_options=_READ, parse_options=_PARSE)
        table.validate(full=True)  # Arrow's reader does not check that text is UTF-8.
    except pa.ArrowInvalid:
        return None
    lines = text.count(b"\n") + (not text.endswith(b"\n"))
    if table.num_rows != lines or any(column.null_count for column in table.columns):
        return None
    if any(_has_odd_name(table[name]) for name in ("reviewerID", "asin")):
        return None
    return table


def _has_odd_name(names: pa.ChunkedArray) -> bool:
    return pc.any(pc.or_(pc.equal(names, ""), pc.match_substring(names, "\0"))).as_py()


def _review(line: bytes) -> tuple[str, str, int]:
    text, is_utf8 = decode(line)
    if text.startswith("["):
        raise ValueError(ARRAY)
    try:
        fields = load_json(text)
    except (ValueError, RecursionError):
        raise ValueError(_why_not(text)) from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    user, item = (_name(fields, name, is_utf8) for name in ("reviewerID", "asin"))
    return user, item, _whole_number(fields, "unixReviewTime")


def _why_not(text: str) -> str:
    """Why a line is not JSON."""
    if text.strip() == "{":
        return "not JSON: an object over several lines; convert the file with jq -c ."
    if "\r" in text.rstrip():
        return "not JSON: lines that end with a carriage return alone; convert the file with tr '\\r' '\\n'"
    return "not JSON" + (": a Python literal" if text.startswith("{'") else "")


def _name(fields: dict[str, Any], name: str, is_utf8: bool) -> str:
    value = fields.get(name)
    if value is None or value == "":
        raise ValueError(f"no {name}")
    if not isinstance(value, str):
        raise ValueError(f"{name} is not text")
    check_name(value, name, is_utf8)
    return value


def _whole_number(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if value is None:
        raise ValueError(f"no {name}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not _SMALLEST <= value <= _LARGEST:
        raise ValueError(f"{name} is not a whole number")
    return value
