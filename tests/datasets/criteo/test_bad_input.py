"""Each kind of bad input gives one line that names the file and the remedy, or goes to the quarantine."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.datasets.amazon_reviews.raw import samples
from tests.datasets.criteo.raw import assert_samples, error_of, preprocess, random_lines, raw_folder, text_of

LINES = random_lines(50)
GOOD = LINES[0]


def changed(column: int, value: str) -> str:
    return "\t".join([*GOOD[:column], value, *GOOD[column + 1 :]])


BAD_LINES = {
    "39 fields instead of 40": "\t".join(GOOD[:-1]),
    "41 fields instead of 40": "\t".join([*GOOD, ""]),
    "1 fields instead of 40": "junk",
    "the label is '2', not 0 or 1": changed(0, "2"),
    "the label is '', not 0 or 1": changed(0, ""),
    "the label is '0.5', not 0 or 1": changed(0, "0.5"),
    "int_3 is '1.5', not an integer": changed(3, "1.5"),
    "int_3 is '0x1', not an integer": changed(3, "0x1"),
    "int_3 is ' 1', not an integer": changed(3, " 1"),
    "int_13 is '9999999999999999999', not an integer": changed(13, "9" * 19),
    "cat_1 is '68fd1e641', not 8 hexadecimal digits": changed(14, "68fd1e641"),
    "cat_1 is '68fd1e6', not 8 hexadecimal digits": changed(14, "68fd1e6"),
    "cat_26 is '68fd1e6g', not 8 hexadecimal digits": changed(39, "68fd1e6g"),
    "cat_26 is '68fd\\x001e6', not 8 hexadecimal digits": changed(39, "68fd\x001e6"),
}


@pytest.mark.parametrize("reason", BAD_LINES)
def test_a_malformed_line_is_quarantined_with_its_number_and_reason(tmp_path: Path, reason: str) -> None:
    text = f"{text_of(LINES[:2])}\n{BAD_LINES[reason]}\n{text_of(LINES[2:])}"
    counts = preprocess(raw_folder(tmp_path / "raw", train=text), tmp_path / "out", malformed_limit=0.1)
    quarantined = (tmp_path / "out" / "quarantine" / "train.txt.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in quarantined] == [{"line": 4, "reason": reason, "text": BAD_LINES[reason]}]
    assert (counts["impressions"], counts["malformed_lines"]) == (50, 1)
    preprocess(raw_folder(tmp_path / "clean", train=LINES), tmp_path / "expected")
    assert_samples(samples(tmp_path / "out", "train"), samples(tmp_path / "expected", "train"))


def test_too_many_malformed_lines_name_the_file_the_count_and_the_first(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", day_0=LINES, day_1=text_of(LINES) + "junk\njunk\n")
    message = error_of(raw, tmp_path / "out")
    assert "day_1: 2 of 52 lines are not impressions, the first is line 51 (1 fields instead of 40)" in message


def test_a_plain_file_cut_in_a_line_is_named_whatever_the_limit(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", train=text_of(LINES)[:-3])
    assert "train.txt: ends in the middle of line 50" in error_of(raw, tmp_path / "out", malformed_limit=1)


def test_a_file_may_end_without_a_newline(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", train=text_of(LINES)[:-1])
    assert preprocess(raw, tmp_path / "out")["impressions"] == 50


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", day_0=LINES, day_1="")
    assert "day_1: no impressions in it" in error_of(raw, tmp_path / "out")


def test_a_file_of_one_impression_is_named(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", train=LINES[:1])
    assert "train.txt: 1 impressions leave none to train on" in error_of(raw, tmp_path / "out")


@pytest.mark.parametrize(("split", "rows"), [("train", 45), ("test", 5)])
@pytest.mark.parametrize("label", ["0", "1"])
def test_a_split_of_one_label_is_told_before_anything_is_trained(
    tmp_path: Path, split: str, rows: int, label: str
) -> None:
    alike = slice(0, 45) if split == "train" else slice(45, 50)
    lines = [[str(number % 2), *line[1:]] for number, line in enumerate(LINES)]
    lines[alike] = [[label, *line[1:]] for line in lines[alike]]
    message = error_of(raw_folder(tmp_path / "raw", train=lines), tmp_path / "parquet")
    assert f"train.txt: all {rows} {split} impressions have the label {label}" in message


def test_a_folder_without_a_day_is_named(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw")
    (raw / "other.txt").write_text("x")
    assert "raw: no day_0, day_1, ... or train.txt" in error_of(raw, tmp_path / "out")


def test_a_day_that_is_there_twice_is_named(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", day_0=LINES)
    (raw / "day_0.gz").write_bytes(gzip.compress(b""))
    assert "day_0: also exists as day_0.gz" in error_of(raw, tmp_path / "out")


def test_files_of_both_collections_are_named(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", day_0=LINES, train=LINES)
    assert "train.txt: lies beside day_0, which is of another collection" in error_of(raw, tmp_path / "out")


@pytest.mark.parametrize(("test_day", "message"), [(5, "no day_5 in"), (0, "no day before it to train on")])
def test_a_test_day_that_cannot_be_is_named(tmp_path: Path, test_day: int, message: str) -> None:
    raw = raw_folder(tmp_path / "raw", day_0=LINES, day_1=LINES)
    told = error_of(raw, tmp_path / "out", test_day=test_day)
    assert f"parameter test_day={test_day}: {message}" in told
    assert "the days here are 0, 1" in told


@pytest.mark.parametrize(
    ("name", "test_day", "message"),
    [
        ("day_3", 5, "no day_5 in"),
        ("day_3", 3, "no day before it to train on"),
        ("train", 0, "train.txt is of no day; leave it at -1"),
    ],
)
def test_a_test_day_is_not_ignored_where_there_is_one_file(
    tmp_path: Path, name: str, test_day: int, message: str
) -> None:
    told = error_of(raw_folder(tmp_path / "raw", **{name: LINES}), tmp_path / "out", test_day=test_day)
    assert f"parameter test_day={test_day}: " in told and message in told
