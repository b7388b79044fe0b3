"""Names of users, items and categories, which identify them and so must be exact.

A valid name survives every library byte for byte. Replacing invalid UTF-8 would merge distinct users; so would pandas,
which compares text only up to the first NUL.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

import orjson

# Replaces a byte that is not UTF-8; a noncharacter, which valid text does not contain.
_STRAY = "\ufdd0"
_ESCAPED = re.compile("[\udc80-\udcff]")


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
        value: the name.
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
