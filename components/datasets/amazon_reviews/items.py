"""The category of every item, from the metadata files."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import Any

import pyarrow as pa

from components.datasets.amazon_reviews.names import check_name, decode, load_json
from components.datasets.histories.items import ITEM
from components.workflows.quarantine import ARRAY, BadLine
from components.workflows.text_blocks import Block, table_of


def parse_items(block: Block) -> tuple[pa.Table, list[BadLine]]:
    """Asin and category of each item in a block, and the malformed lines.

    The category is the last entry of the first path of ``categories``, null if there is none. Both are valid names; see
    ``names``.
    """
    rows, bad = block.parsed(_item)
    return table_of(rows, ITEM), bad


def _item(line: bytes) -> tuple[str, str | None]:
    text, is_utf8 = decode(line)
    asin, category = parse_item(text.strip())
    check_name(asin, "asin", is_utf8)
    if category is not None:
        check_name(category, "the category", is_utf8)
    return asin, category


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
_OTHER_KEY = rf"'(?!asin'|categories'){_PLAIN}*'"
# A group inside a repetition keeps its last match, as a dictionary keeps the last of equal keys.
_ENTRY = rf"(?:'asin': ?'({_PLAIN}+)'|'categories': ?({_LISTS})|{_OTHER_KEY}: ?(?:{_ATOM}|{_LISTS}|{_LIST}|{_DICT}))"
_PLAIN_LINE = re.compile(rf"\{{(?:{_ENTRY}(?:, ?|(?=\}})))+\}}")


def parse_item(line: str) -> tuple[str, str | None]:
    """Asin and category of a metadata line without surrounding white space.

    The category is the last entry of the first path of ``categories``; None if there is none.

    Raises:
        ValueError: the line is not item metadata; the message says why.
    """
    plain = _PLAIN_LINE.fullmatch(line)
    if plain and plain[1]:
        return plain[1], _category_of(plain[2]) if plain[2] else None
    if line.startswith("["):
        raise ValueError(ARRAY)
    item = _literal(line)
    if not isinstance(item, dict):
        raise ValueError("not an object")
    asin = item.get("asin")
    if not asin or not isinstance(asin, str):
        raise ValueError("no asin")
    return asin, _category(item.get("categories"))


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
