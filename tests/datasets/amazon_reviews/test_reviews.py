from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from components.datasets.amazon_reviews.lines import parse_reviews
from components.datasets.histories.sorting import hashes_of
from components.errors import KfrecError
from components.workflows.text_blocks import MIB, Block, RawReader, blocks
from tests.datasets.amazon_reviews.raw import review_line


def parse(*lines: str | bytes) -> list[tuple[str, str, int]]:
    text = b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines)
    table, _ = parse_reviews(Block(text, 1, len(text)))
    return [tuple(row.values()) for row in table.to_pylist()]


def refused(*lines: bytes) -> tuple[list[dict[str, object]], list[str]]:
    text = b"".join(line + b"\n" for line in lines)
    table, bad = parse_reviews(Block(text, 1, len(text)))
    return table.to_pylist(), [line.reason for line in bad]


GOOD: list[str | bytes] = [
    '{"reviewerID": "ann", "asin": "i1", "unixReviewTime": 7, "helpful": [1, 2], "reviewText": "\\u00e9 \\"q\\""}',
    '{"unixReviewTime": -3, "asin": "i\\u00e9", "reviewerID": "b"}',
    b'{"reviewerID": "c", "asin": "i3", "unixReviewTime": 9, "reviewText": "\xff"}',
]
EXPECTED = [("ann", "i1", 7), ("b", "ié", -3), ("c", "i3", 9)]


def test_reviews_are_read_at_once() -> None:
    assert parse(*GOOD) == EXPECTED


def test_reviews_beside_a_bad_line_are_read_the_same() -> None:
    assert parse(*GOOD, "junk") == EXPECTED


def test_a_time_with_a_decimal_point_is_taken_where_it_is_whole() -> None:
    assert parse('{"reviewerID": "a", "asin": "i", "unixReviewTime": 5.0}') == [("a", "i", 5)]


@pytest.mark.parametrize("beside", [b"", b"junk"])
def test_what_is_wrong_in_ignored_fields_is_harmless(beside: bytes) -> None:
    rows = [
        b'{"reviewerID": "a", "asin": "i", "unixReviewTime": 5, "x": %s}' % value
        for value in (b"NaN", b'"\\ud800"', b'"\0\x01"')
    ]
    marked = b"\xef\xbb\xbf" + rows[0]  # files that begin with a mark may have been put together
    assert parse(*rows, marked, *([beside] if beside else [])) == [("a", "i", 5)] * 4


@pytest.mark.parametrize("text", [b'[{"reviewerID": "a", "asin": "i", "unixReviewTime": 5}]', b"[\n{}\n]\n"])
def test_an_array_is_named(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "reviews.json").write_bytes(text)
    reader = RawReader(tmp_path / "quarantine", 0.01)
    with pytest.raises(KfrecError, match=r"reviews\.json: .* the first is line 1 \(a JSON array, .* jq -c"):
        list(reader.tables([tmp_path / "reviews.json"], parse_reviews, "reviews", "reading"))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, suffix: str) -> None:
    path, text = tmp_path / f"reviews.json{suffix}", b"\xef\xbb\xbfone\r\ntwo\r\n"
    path.write_bytes(gzip.compress(text) if suffix else text)
    assert b"".join(block.text for block in blocks(path)) == b"one\r\ntwo\r\n"
    assert b"".join(block.text for block in blocks(path, 4)) == b"one\r\ntwo\r\n"


def test_a_small_file_with_an_endless_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reviews.json.gz"
    path.write_bytes(gzip.compress(b"first\n" + bytes(2 * MIB) + b"\n", 1))
    assert sum(len(block.text) for block in blocks(path, 1 << 16)) == 2 * MIB + 7
    with pytest.raises(KfrecError, match=r"reviews\.json\.gz: line 2 is longer than 1\.5 MiB; .* raise longest_line"):
        list(blocks(path, 1 << 16, longest_line=1.5))


NO_NAMES = {
    "reviewerID has bytes that are not UTF-8": b'{"reviewerID": "a\xff", "asin": "i", "unixReviewTime": 5}',
    "asin has bytes that are not UTF-8": b'{"reviewerID": "a", "asin": "\xe9i", "unixReviewTime": 5}',
    "reviewerID has a NUL character": b'{"reviewerID": "a\\u0000b", "asin": "i", "unixReviewTime": 5}',
    "asin has a NUL character": b'{"reviewerID": "a", "asin": "\\u0000", "unixReviewTime": 5}',
    "reviewerID has a surrogate without its pair": b'{"reviewerID": "a\\ud800", "asin": "i", "unixReviewTime": 5}',
}


@pytest.mark.parametrize("beside", [b"", b"junk"])
@pytest.mark.parametrize("reason", NO_NAMES)
def test_a_name_that_could_be_taken_for_another_is_refused(reason: str, beside: bytes) -> None:
    table, bad = refused(NO_NAMES[reason], beside)
    assert table == []
    assert bad[0] == reason


NAMES = ["a", "a ", " a", "A", "\u00e9", "e\u0301", "\ufffd", "\ufdd0", "a\u200b", "\U0001f600", "nan", "None", "NULL"]


@pytest.mark.parametrize("beside", [b"", b"junk"])
def test_names_that_only_look_alike_are_kept_as_they_are(beside: bytes) -> None:
    assert [user for user, *_ in parse(*(review_line(name, "i", 1) for name in NAMES), beside)] == NAMES
    assert len({*hashes_of(pa.chunked_array([NAMES]))}) == len(NAMES)


def test_bytes_that_are_not_utf8_elsewhere_spoil_nothing_beside_a_replacement_character() -> None:
    line = '{"reviewerID": "\ufffd", "asin": "i", "unixReviewTime": 5, "reviewText": "'.encode() + b'\xff"}'
    assert parse(line) == [("\ufffd", "i", 5)]


@pytest.mark.parametrize("block_bytes", [1, 7, 100, 1 << 20])
@pytest.mark.parametrize("compressed", [False, True])
def test_blocks_hold_whole_lines_and_know_their_numbers(tmp_path: Path, block_bytes: int, compressed: bool) -> None:
    lines = [review_line(f"u{number}", "i" * number, number).encode() for number in range(20)]
    text = b"\n".join(lines)  # The last line has no newline.
    path = tmp_path / ("reviews_X.json.gz" if compressed else "reviews_X.json")
    # A gzip file may have several members, as concatenated downloads do.
    path.write_bytes(gzip.compress(text[:300]) + gzip.compress(text[300:]) if compressed else text)
    found = list(blocks(path, block_bytes))
    assert b"".join(block.text for block in found) == text
    assert all(block.text.endswith(b"\n") for block in found[:-1])
    for block in found:
        assert block.text.splitlines()[0] == lines[block.first_line - 1]
    assert sum(block.consumed for block in found) == path.stat().st_size
