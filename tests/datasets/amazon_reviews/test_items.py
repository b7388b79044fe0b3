"""Items of a block of metadata lines, and the lines that give none."""

from __future__ import annotations

import pytest

from components.datasets.amazon_reviews.lines import parse_items
from components.workflows.text_blocks import Block


def parse(*lines: bytes) -> tuple[list[tuple[str | None, ...]], list[str]]:
    text = b"".join(line + b"\n" for line in lines)
    table, bad = parse_items(Block(text, 1, len(text)))
    return [(row["asin"], row["category"]) for row in table.to_pylist()], [line.reason for line in bad]


NO_NAMES = {
    b"{'asin': 'a\xff', 'categories': [['x']]}": "asin has bytes that are not UTF-8",
    b'{"asin": "a\xff", "categories": [["x"]]}': "asin has bytes that are not UTF-8",
    b"{'asin': 'a\\x00b', 'categories': [['x']]}": "asin has a NUL character",
    b'{"asin": "a\\u0000b", "categories": [["x"]]}': "asin has a NUL character",
    b"{'asin': '\\udc80', 'categories': [['x']]}": "asin has a surrogate without its pair",
    b'{"asin": "\\ud800", "categories": [["x"]]}': "asin has a surrogate without its pair",
    b"{'asin': 'a', 'categories': [['\xe9']]}": "the category has bytes that are not UTF-8",
    b"{'asin': 'a', 'categories': [['\\x00']]}": "the category has a NUL character",
    b"{'asin': 'a', 'categories': [['\\ud800']]}": "the category has a surrogate without its pair",
}


@pytest.mark.parametrize("line", NO_NAMES)
def test_a_name_that_could_be_taken_for_another_is_refused(line: bytes) -> None:
    assert parse(line) == ([], [NO_NAMES[line]])


@pytest.mark.parametrize("quote", ["'", '"'])
def test_bytes_that_are_not_utf8_elsewhere_spoil_nothing(quote: str) -> None:
    line = "{'asin': 'a\u00e9', 'title': '?', 'categories': [['x', '\u00fc']]}".replace("'", quote)
    assert parse(line.encode().replace(b"?", b"\xff\x80")) == ([("a\u00e9", "\u00fc")], [])


def test_asins_that_only_look_alike_are_kept_as_they_are() -> None:
    names = ["a", "a ", "\u00e9", "e\u0301", "\ufffd", "\ufdd0"]
    items, bad = parse(*(repr({"asin": name, "categories": [[name]]}).encode() for name in names))
    assert (items, bad) == ([(name, name) for name in names], [])


def test_what_is_wrong_in_ignored_fields_is_harmless() -> None:
    lines = [
        b'{"asin": "a", "categories": [["x"]], "price": %s}' % value for value in (b"NaN", b"Infinity", b'"\\ud800"')
    ]
    literals = [b"{'asin': 'a', 'price': %s, 'categories': [['x, nan']]}" % value for value in (b"nan", b"-inf")]
    assert parse(*lines, *literals) == ([("a", "x")] * 3 + [("a", "x, nan")] * 2, [])


def test_an_array_is_named() -> None:
    assert "a JSON array, not an object a line" in parse(b'[{"asin": "a"}]')[1][0]


def test_a_title_is_one_line_of_text_and_spoils_nothing() -> None:
    titles = [b"'It\\'s\\n  here'", b'"It\'s"', b"'\\ud800'", b"['a']", b"None", b"'" + b"x" * 100 + b"'"]
    table, bad = parse_items(Block(b"".join(b"{'title': %s, 'asin': 'a'}\n" % title for title in titles), 1, 0))
    assert (table["title"].to_pylist(), bad) == (["It's here", "It's", "?", None, None, "x" * 80], [])
