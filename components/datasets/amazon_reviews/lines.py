"""Lines of reviews and of items' metadata to columns.

Reviews are parsed with Arrow's JSON reader if all lines of a block are valid, else line by line.

Names of users, items and categories identify them and so must be exact. A valid name survives every library byte for
byte. Replacing invalid UTF-8 would merge distinct users; so would pandas, which compares text only up to the first NUL.
"""

from __future__ import annotations

import ast
import codecs
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from components.datasets.histories.sorting import REVIEW, item_schema
from components.feature_spec.catalogue import shown_title
from components.workflows.quarantine import ARRAY, BadLine
from components.workflows.text_blocks import Block, table_of

# Replaces a byte that is not UTF-8; a noncharacter, which valid text does not contain.
_STRAY = "\ufdd0"
_ESCAPED = re.compile("[\udc80-\udcff]")
_PARSE = pj.ParseOptions(explicit_schema=REVIEW, unexpected_field_behavior="ignore")
_READ = pj.ReadOptions(use_threads=True, block_size=1 << 20)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_PLAIN = r"[^'\\\n\r\0]"
# Escapes that can be invalid (\N{...}, \U........, a short \x or \u) are left to ast.
_ESCAPE = r"\\(?:[^xuUN\n\r\0]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})"
_TEXT = rf"""(?:'{_PLAIN}*(?:{_ESCAPE}{_PLAIN}*)*'|"[^"\\\n\r\0]*(?:{_ESCAPE}[^"\\\n\r\0]*)*")"""
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30})?(?:e[+-]?[0-9]{1,3})?"
_ATOM = rf"(?:{_TEXT}|{_NUMBER}|None|True|False)"
# The first alternative is the usual list of asins; a separate one halves the time.
_LIST = rf"(?:\[(?:'{_PLAIN}*', ?)*(?:'{_PLAIN}*')?\]|\[(?:{_ATOM}(?:, ?{_ATOM})*)?\])"
_LISTS = rf"\[(?:{_LIST}(?:, ?{_LIST})*)?\]"
_FLAT = rf"(?:{_ATOM}|{_LIST})"
_DICT = rf"\{{(?:{_TEXT}: ?{_FLAT}(?:, ?{_TEXT}: ?{_FLAT})*)?\}}"
_OTHER_KEY = rf"'(?!asin'|categories'|title'){_PLAIN}*'"
# A group inside a repetition keeps its last match, as a dictionary keeps the last of equal keys.
_ENTRY = (
    rf"(?:'asin': ?'({_PLAIN}+)'|'categories': ?({_LISTS})|'title': ?({_TEXT})|"
    rf"{_OTHER_KEY}: ?(?:{_ATOM}|{_LISTS}|{_LIST}|{_DICT}))"
)
_PLAIN_LINE = re.compile(rf"\{{(?:{_ENTRY}(?:, ?|(?=\}})))+\}}")


def decode(line: bytes) -> tuple[str, bool]:
    """The text of a line, and whether all of it is UTF-8; invalid bytes are replaced by a mark.

    Such bytes in a review's text are harmless; ``check_name`` rejects them in names.
    """
    # Files that begin with a byte order mark may have been put together.
    line = line.removeprefix(codecs.BOM_UTF8)
    try:
        return line.decode(), True
    except UnicodeDecodeError:
        return _ESCAPED.sub(_STRAY, line.decode("utf-8", "surrogateescape")), False


def load_json(text: str) -> Any:
    """A JSON value; also with NaN, as pandas and Python write it, surrogates without their pair, control characters.

    Raises:
        ValueError: it is none.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text, strict=False)


def check_name(value: str, what: str, is_utf8: bool) -> None:
    """Rejects a name that cannot be distinguished from another one.

    Args:
        what: the field, for the message.
        is_utf8: whether all bytes of its line are UTF-8; see ``decode``.

    Raises:
        ValueError: the message says why.
    """
    if "\0" in value:
        raise ValueError(f"{what} has a NUL character")
    if value.isascii():
        return
    if not is_utf8 and _STRAY in value:
        raise ValueError(f"{what} has bytes that are not UTF-8")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} has a surrogate without its pair") from None


def parse_reviews(block: Block) -> tuple[pa.Table, list[BadLine]]:
    """The reviews of a block, in order, as a table of the schema ``REVIEW``, and the malformed lines.

    A review is a JSON object with a non-empty text reviewerID, a non-empty text asin and a whole number unixReviewTime;
    other fields are ignored. Blank lines are skipped. ``check_name`` defines valid names.
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


def parse_items(block: Block, columns: Sequence[str] = ()) -> tuple[pa.Table, list[BadLine]]:
    """Asin, category and title of each item in a block, and other fields as text, and the malformed lines.

    The category is the last entry of the first path of ``categories``, null if there is none. The asin and the category
    are valid names; see ``check_name``.

    Args:
        columns: names of the other fields.
    """
    rows, bad = block.parsed(lambda line: _item(line, columns))
    return table_of(rows, item_schema(columns)), bad


def _item(line: bytes, columns: Sequence[str]) -> tuple[str | None, ...]:
    text, is_utf8 = decode(line)
    asin, category, title = parse_item(text.strip())
    check_name(asin, "asin", is_utf8)
    if category is not None:
        check_name(category, "the category", is_utf8)
    fields = _literal(text.strip()) if columns else {}
    told = [None if value is None else str(value) for value in map(fields.get, columns)]
    return asin, category, shown_title(title), *(text and text.encode(errors="replace").decode() for text in told)


def parse_item(line: str) -> tuple[str, str | None, Any]:
    """Asin, category and title of a metadata line without surrounding white space.

    The category is the last entry of the first path of ``categories``; None if there is none. The title is what stands
    there.

    Raises:
        ValueError: the line is not item metadata; the message says why.
    """
    plain = _PLAIN_LINE.fullmatch(line)
    if plain and plain[1]:
        asin, categories, title = plain.groups()
        title = ast.literal_eval(title) if title and "\\" in title else title and title[1:-1]
        return asin, _category_of(categories) if categories else None, title
    if line.startswith("["):
        raise ValueError(ARRAY)
    item = _literal(line)
    if not isinstance(item, dict):
        raise ValueError("not an object")
    asin = item.get("asin")
    if not asin or not isinstance(asin, str):
        raise ValueError("no asin")
    return asin, _category(item.get("categories")), item.get("title")


class _WithoutNan(ast.NodeTransformer):
    """Numbers that pandas writes as nan and inf, which are no literals, become 0."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(0) if node.id in ("nan", "inf") else node


def _literal(line: str) -> Any:
    if not line.startswith("{'"):  # JSON has no single quotes.
        try:
            return load_json(line)
        except (ValueError, RecursionError):
            pass
    try:
        return ast.literal_eval(_WithoutNan().visit(ast.parse(line, mode="eval")))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError("neither JSON nor a Python literal") from None


@lru_cache(maxsize=1 << 16)
def _category_of(categories: str) -> str | None:
    return _category(ast.literal_eval(categories))


def _category(categories: Any) -> str | None:
    if not categories:
        return None
    if not isinstance(categories, list) or not isinstance(categories[0], list):
        raise ValueError("categories is not a list of lists")
    last = categories[0][-1] if categories[0] else None
    if last is not None and not isinstance(last, str):
        raise ValueError("a category is not text")
    return last or None
