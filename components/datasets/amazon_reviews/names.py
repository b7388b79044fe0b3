"""Names of users, items and categories: what a line must spell exactly, because equal names are one thing.

Only what survives every library on the way byte for byte is a name. A byte that is not UTF-8 has no character, and
replacing it makes one user of many; pandas compares text up to the first NUL, with the same result.
"""

from __future__ import annotations

import re

# Stands for a byte that is not UTF-8; a noncharacter, which text that is interchanged does not hold.
_STRAY = "\ufdd0"
_ESCAPED = re.compile("[\udc80-\udcff]")


def decode(line: bytes) -> tuple[str, bool]:
    """The text of a line, and whether all of it is UTF-8; each byte that is not becomes a mark.

    Such bytes spoil a review's text, not the review: :func:`check_name` refuses them where they matter.
    """
    try:
        return line.decode(), True
    except UnicodeDecodeError:
        return _ESCAPED.sub(_STRAY, line.decode("utf-8", "surrogateescape")), False


def check_name(value: str, what: str, is_utf8: bool) -> None:
    """Refuses a name that cannot be told from another one.

    Args:
        value: the name.
        what: the field, for the message.
        is_utf8: whether all bytes of its line are UTF-8; see :func:`decode`.

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
