from __future__ import annotations

import ast
import json
import random
from typing import Any

import pytest

from components.datasets.amazon_reviews.lines import _PLAIN_LINE, parse_item


def literal(line: str) -> tuple[str, str | None, Any]:
    """What the line says, by Python's own parser."""
    item = ast.literal_eval(line)
    paths = item.get("categories")
    return item["asin"], (paths[0][-1] or None) if paths and paths[0] else None, item.get("title")


TEXTS = [
    "",
    "a",
    "it's",
    'say "x"',
    "both ' and \"",
    "back\\slash",
    "é",
    "\x07",
    "],[",
    "', '",
    "{'asin': 'z'}",
    "\u2028",
]


def value(source: random.Random, depth: int) -> Any:
    kinds = ["text", "number", "none", "list", "dict"] if depth else ["text", "number", "none"]
    match source.choice(kinds):
        case "text":
            return source.choice(TEXTS)
        case "number":
            return source.choice([0, -1, 12, 9.49, -0.5, 1e-7, 1e300, True])
        case "none":
            return None
        case "list":
            return [value(source, depth - 1) for _ in range(source.randrange(4))]
        case _:
            return {source.choice(TEXTS): value(source, depth - 1) for _ in range(source.randrange(3))}


def random_item(source: random.Random) -> dict[str, Any]:
    entries: list[tuple[str, Any]] = [("asin", source.choice(["B01"] * 8 + ["it's", "a\\b"]))]
    if source.random() < 0.8:
        paths = [[source.choice(TEXTS) for _ in range(source.randrange(3))] for _ in range(source.randrange(3))]
        entries.append(("categories", paths))
    entries += [
        (source.choice(["title", "related", "related", "price", "it's"]), value(source, source.randrange(4)))
        for _ in range(3)
    ]
    source.shuffle(entries)
    return dict(entries)


def test_a_line_means_what_pythons_parser_says() -> None:
    source = random.Random(1)
    plain = 0
    for _ in range(5000):
        line = repr(random_item(source))
        plain += bool(_PLAIN_LINE.fullmatch(line))
        assert parse_item(line) == literal(line), line
    assert 1000 < plain < 4900, "both ways must be tried"


def test_json_means_the_same_as_a_literal() -> None:
    source = random.Random(2)
    for _ in range(500):
        item = random_item(source)
        assert parse_item(json.dumps(item)) == parse_item(repr(item))


def test_damaged_lines_are_refused_where_pythons_parser_refuses_them() -> None:
    source = random.Random(3)
    for _ in range(3000):
        line = repr(random_item(source))
        place = source.randrange(len(line))
        line = line[:place] + source.choice(["", "'", '"', "]", "}", ",", "\\", "\\N", "\\x", "5"]) + line[place + 1 :]
        try:
            expected: tuple[str, str | None, Any] | None = literal(line)
        except (ValueError, SyntaxError, KeyError, TypeError, AttributeError):
            expected = None
        try:
            found: tuple[str, str | None, Any] | None = parse_item(line)
        except ValueError:
            found = None
        # A damaged line may still be a literal, though none of an item: then only parse_item refuses it.
        assert found == expected or (found is None and not isinstance(expected and expected[1], str)), line


@pytest.mark.parametrize(
    "line", ["{'asin': 'B1', 'categories': [['a', 'b'], ['c']]}", '{"asin":"B1","categories":[["a","b"]]}']
)
def test_the_category_is_the_last_of_the_first_path(line: str) -> None:
    assert parse_item(line) == ("B1", "b", None)


def test_of_two_equal_keys_the_last_counts() -> None:
    line = "{'asin': 'B1', 'asin': 'B2', 'categories': [['a']], 'title': 'c', 'categories': [['b']], 'title': None}"
    assert parse_item(line) == ("B2", "b", None)


@pytest.mark.parametrize(
    "line", ["{'asin': 'B1'}", "{'asin': 'B1', 'categories': [[]]}", "{'asin': 'B1', 'categories': None}"]
)
def test_an_item_may_have_no_category(line: str) -> None:
    assert parse_item(line) == ("B1", None, None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{'title': 'x'}", "no asin"),
        ("{'asin': 5}", "no asin"),
        ("['asin']", "not an object"),
        ("{'asin': 'B1', 'categories': 'x'}", "categories is not a list of lists"),
        ("{'asin': 'B1', 'categories': [[1]]}", "a category is not text"),
        ("asin=B1", "neither JSON nor a Python literal"),
    ],
)
def test_a_line_that_is_no_item_is_refused_with_the_reason(line: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_item(line)
