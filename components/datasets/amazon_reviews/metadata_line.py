"""One line of item metadata: a JSON object, or the Python literal of a dictionary, as in the 2014 Amazon files.

``ast.literal_eval`` is slow. Nearly all lines have a simple form, which one regular expression parses ten times as
fast. Its grammar is a subset of Python's literals, so both agree on a line that matches; other lines (unusual spacing,
escapes in an asin, deeper nesting) go to ``ast.literal_eval``.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import Any

import orjson

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
    item = _literal(line)
    if not isinstance(item, dict):
        raise ValueError("not an object")
    asin = item.get("asin")
    if not asin or not isinstance(asin, str):
        raise ValueError("no asin")
    return asin, _category(item.get("categories"))


def _literal(line: str) -> Any:
    if not line.startswith("{'"):  # JSON has no single quotes.
        try:
            return orjson.loads(line)
        except orjson.JSONDecodeError:
            pass
    try:
        return ast.literal_eval(line)
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
