"""Each kind of bad input gives one line that names the file and the remedy, and leaves the earlier output alone."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from components.artifacts import adopt, open_artifact
from components.workflows.quarantine import ARRAY
from tests.datasets.amazon_reviews.raw import (
    Review,
    error_of,
    preprocess,
    random_reviews,
    raw_folder,
    review_line,
    samples,
)

REVIEWS: list[Review] = [("ann", f"i{number}", number) for number in range(5)]
CATEGORIES = {f"i{number}": "x" for number in range(5)}
Change = Callable[[bytes], bytes]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return raw_folder(tmp_path / "raw", REVIEWS, CATEGORIES)


def test_a_failure_leaves_the_earlier_output_untouched(raw: Path, tmp_path: Path) -> None:
    preprocess(raw, tmp_path / "parquet")
    before = open_artifact(tmp_path / "parquet").digest
    error_of(raw, tmp_path / "parquet", shortest_sequence_for_user=50)
    assert open_artifact(tmp_path / "parquet").digest == before


@pytest.mark.parametrize("kind", ["reviews", "meta"])
def test_a_missing_file_is_named(raw: Path, tmp_path: Path, kind: str) -> None:
    (raw / f"{kind}_Test.json").unlink()
    assert f"no {kind}_*.json or {kind}_*.json.gz here" in error_of(raw, tmp_path / "parquet")


def test_a_file_that_is_there_twice_is_named(raw: Path, tmp_path: Path) -> None:
    (raw / "reviews_Test.json.gz").write_bytes(gzip.compress((raw / "reviews_Test.json").read_bytes()))
    assert "reviews_Test.json: also exists as reviews_Test.json.gz" in error_of(raw, tmp_path / "parquet")


def test_only_the_files_that_the_manifest_lists_are_reviews(
    raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copyfile(raw / "reviews_Test.json", raw / "reviews_Copy.json")
    assert preprocess(raw, tmp_path / "parquet")["events"] == len(REVIEWS)
    assert "reviews_Copy.json: not listed in _manifest.json, so it is not read" in capsys.readouterr().out


def test_an_empty_data_set_is_named(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", [], CATEGORIES)
    assert "reviews_Test.json: no reviews in it" in error_of(raw, tmp_path / "parquet")


def test_a_truncated_gz_names_the_file(raw: Path, tmp_path: Path) -> None:
    whole = gzip.compress((raw / "reviews_Test.json").read_bytes())
    (raw / "reviews_Test.json").unlink()
    (raw / "reviews_Test.json.gz").write_bytes(whole[:-20])
    assert "reviews_Test.json.gz: truncated or damaged gzip file" in error_of(raw, tmp_path / "parquet")


def test_a_gz_that_is_none_names_the_file(raw: Path, tmp_path: Path) -> None:
    (raw / "meta_Test.json").rename(raw / "meta_Test.json.gz")
    assert "meta_Test.json.gz: truncated or damaged gzip file" in error_of(raw, tmp_path / "parquet")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", ["reviews", "meta"])
@pytest.mark.parametrize(
    ("codec", "told"),
    [("utf-16", "UTF-16"), ("utf-16-le", "UTF-16LE"), ("utf-16-be", "UTF-16BE"), ("utf-32", "UTF-32")],
)
def test_a_file_of_wider_characters_is_told_with_the_remedy(
    raw: Path, tmp_path: Path, codec: str, told: str, kind: str, compressed: bool
) -> None:
    path = raw / f"{kind}_Test.json"
    text = path.read_text().encode(codec)
    path.unlink()
    path = path.with_name(f"{path.name}.gz") if compressed else path
    path.write_bytes(gzip.compress(text) if compressed else text)
    message = error_of(raw, tmp_path / "parquet")
    assert f"{path.name}: is {told}, not UTF-8; convert" in message
    assert f"iconv -f {told} -t UTF-8" in message


def test_names_in_another_encoding_are_quarantined_and_not_merged(tmp_path: Path) -> None:
    # Written as Latin-1, all users of a letter but "a" would have the same name once their bytes were replaced.
    users = ["ann", *(f"{letter}nn" for letter in "\u00e0\u00e1\u00e2\u00e3")]
    raw = raw_folder(tmp_path / "raw", [], CATEGORIES)
    lines = [review_line(user, f"i{time}", time) for user in users for time in range(4)]
    lines = [line.encode("ascii").decode("unicode_escape") for line in lines]
    (raw / "reviews_Test.json").write_bytes("".join(f"{line}\n" for line in lines).encode("latin-1"))
    adopt(raw)
    rows = preprocess(raw, tmp_path / "parquet", malformed_limit=1)
    assert (rows["users"], rows["malformed_lines"]) == (1, 16)


def test_users_that_differ_after_a_nul_are_quarantined_and_not_merged(tmp_path: Path) -> None:
    reviews = [(f"a\0{user}", f"i{time}", time) for user in range(20) for time in range(4)]
    raw = raw_folder(tmp_path / "raw", [*REVIEWS, *reviews], CATEGORIES)
    rows = preprocess(raw, tmp_path / "parquet", malformed_limit=1)
    assert (rows["users"], rows["malformed_lines"]) == (1, 80)


def test_two_users_of_one_hash_are_refused_and_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.datasets.histories.sorting.hashes_of", lambda users: np.zeros(len(users), np.int64))
    raw = raw_folder(tmp_path / "raw", [*REVIEWS, *(("eve", f"i{n}", n) for n in range(4))], CATEGORIES)
    message = error_of(raw, tmp_path / "parquet")
    assert "'ann'" in message and "'eve'" in message and "have the same 64-bit hash; rename one" in message


def test_no_user_long_enough_tells_the_longest_and_the_parameter(raw: Path, tmp_path: Path) -> None:
    message = error_of(raw, tmp_path / "parquet", shortest_sequence_for_user=20)
    assert "no user has 20 events, the most active one has 5; lower shortest_sequence_for_user to 5" in message


def test_no_training_sample_tells_the_parameter(raw: Path, tmp_path: Path) -> None:
    message = error_of(raw, tmp_path / "parquet", shortest_sequence_for_training=4)
    assert "no training sample is left" in message
    assert "lower shortest_sequence_for_training" in message


def test_metadata_without_any_category_is_named(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", REVIEWS, ["{'asin': 'i1'}"])
    assert "meta_Test.json: gives no reviewed item a category" in error_of(raw, tmp_path / "parquet")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere:"])
def test_an_unreachable_scheduler_is_named(
    raw: Path, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.workflows.workers._CONNECT_SECONDS", 0.2)
    message = error_of(raw, tmp_path / "parquet", scheduler=address)
    assert message.startswith(f"scheduler {address}: no Dask scheduler answers")


BAD_LINES = {
    "not JSON": '{"reviewerID": "ann", "asin": ',
    "not a JSON object": "1",
    ARRAY: "[1]",
    "no asin": '{"reviewerID": "ann", "unixReviewTime": 1}',
    "no reviewerID": '{"reviewerID": "", "asin": "i1", "unixReviewTime": 1}',
    "asin is not text": '{"reviewerID": "ann", "asin": 1, "unixReviewTime": 1}',
    "no unixReviewTime": '{"reviewerID": "ann", "asin": "i1", "unixReviewTime": null}',
    "unixReviewTime is not a whole number": '{"reviewerID": "ann", "asin": "i1", "unixReviewTime": "1"}',
}


@pytest.mark.slow
@pytest.mark.parametrize("reason", BAD_LINES)
def test_a_line_that_is_no_review_is_quarantined_with_its_number_and_reason(tmp_path: Path, reason: str) -> None:
    raw = raw_folder(tmp_path / "raw", [*REVIEWS[:2], "", BAD_LINES[reason], *REVIEWS[2:]], CATEGORIES)
    rows = preprocess(raw, tmp_path / "parquet", malformed_limit=0.2)
    quarantined = (tmp_path / "parquet" / "quarantine" / "reviews_Test.json.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in quarantined] == [{"line": 4, "reason": reason, "text": BAD_LINES[reason]}]
    assert (rows["events"], rows["malformed_lines"]) == (5, 1)


def test_two_reviews_on_one_line_are_malformed(tmp_path: Path) -> None:
    both = review_line("ann", "i1", 1) + review_line("ann", "i2", 2)
    raw = raw_folder(tmp_path / "raw", [*REVIEWS, both], CATEGORIES)
    assert preprocess(raw, tmp_path / "parquet", malformed_limit=0.5)["events"] == 5


def test_too_many_bad_lines_name_the_file_the_count_and_the_first(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", [*REVIEWS, "junk", "junk"], CATEGORIES)
    message = error_of(raw, tmp_path / "parquet", malformed_limit=0.2)
    assert "reviews_Test.json: 2 of 7 lines are not reviews, the first is line 6 (not JSON)" in message
    assert "malformed_limit" in message


def test_metadata_lines_are_quarantined_too(tmp_path: Path) -> None:
    lines = [repr({"asin": item, "categories": [["x"]]}) for item in CATEGORIES]
    raw = raw_folder(tmp_path / "raw", REVIEWS, [*lines, "{'title': 'no asin'}", "{'asin': 'i9', "])
    preprocess(raw, tmp_path / "parquet", malformed_limit=0.5)
    quarantined = (tmp_path / "parquet" / "quarantine" / "meta_Test.json.jsonl").read_text().splitlines()
    assert [(entry["line"], entry["reason"]) for entry in map(json.loads, quarantined)] == [
        (6, "no asin"),
        (7, "neither JSON nor a Python literal"),
    ]


def test_times_in_two_units_are_named(tmp_path: Path) -> None:
    times = [1_300_000_000, 1_300_000_001, 1_300_000_002_000, 1_300_000_003_000, 1_300_000_004]
    raw = raw_folder(tmp_path / "raw", [("ann", f"i{number}", time) for number, time in enumerate(times)], CATEGORIES)
    message = error_of(raw, tmp_path / "parquet")
    assert "reviews_Test.json: unixReviewTime is in milliseconds and in seconds since 1970; give all" in message


def test_times_in_milliseconds_become_seconds(tmp_path: Path) -> None:
    first = 1_300_000_000
    for name, unit in (("seconds", 1), ("milliseconds", 1000)):
        reviews = [(user, item, (first + time) * unit) for user, item, time in random_reviews(40, 30, 1)]
        preprocess(
            raw_folder(tmp_path / name, reviews, {f"i{item}": "x" for item in range(30)}), tmp_path / f"{name}.out"
        )
    for split in ("train", "test"):
        assert samples(tmp_path / "seconds.out", split) == samples(tmp_path / "milliseconds.out", split)


def test_days_in_place_of_seconds_are_named(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", [("ann", f"i{number}", 20140101 + number) for number in range(5)], CATEGORIES)
    assert "reviews_Test.json: unixReviewTime holds days as YYYYMMDD; give seconds" in error_of(
        raw, tmp_path / "parquet"
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: gzip.compress(text), "reviews_Test.json: is gzip, whatever its name says"),
        (
            lambda text: text.replace(b"\n", b"\r"),
            "lines that end with a carriage return alone; convert the file with tr",
        ),
        (lambda text: json.dumps(list(map(json.loads, text.splitlines())), indent=1).encode(), ARRAY),
        (
            lambda text: b"".join(json.dumps(json.loads(line), indent=1).encode() for line in text.splitlines()),
            "an object over several lines; convert the file with jq -c .",
        ),
        (
            lambda text: b"".join(repr(json.loads(line)).encode() + b"\n" for line in text.splitlines()),
            "a Python literal",
        ),
    ],
    ids=["gzip", "CR", "an array over lines", "objects over lines", "Python"],
)
def test_a_file_in_another_format_is_named(raw: Path, tmp_path: Path, change: Change, told: str) -> None:
    (raw / "reviews_Test.json").write_bytes(change((raw / "reviews_Test.json").read_bytes()))
    assert told in error_of(raw, tmp_path / "parquet")


def test_ties_in_time_are_told_where_they_are_in_the_order_of_ids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tied: list[Review] = [("ann", f"i{number}", number // 2) for number in range(5)]
    preprocess(raw_folder(tmp_path / "tied", tied, CATEGORIES), tmp_path / "a", split="last_item")
    assert "2 of 5 events have the time of the user's event before them" in capsys.readouterr().out
    apart = raw_folder(tmp_path / "apart", [*REVIEWS, REVIEWS[0]], CATEGORIES)
    preprocess(apart, tmp_path / "b", split="last_item")
    assert "the time of the user's review before" not in capsys.readouterr().out


def test_many_items_without_a_category_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    preprocess(raw_folder(tmp_path / "few", REVIEWS, {"i0": "x"}), tmp_path / "a")
    assert "4 of 5 events are of items without a category in the metadata" in capsys.readouterr().out
    preprocess(raw_folder(tmp_path / "all", REVIEWS, CATEGORIES), tmp_path / "b")
    assert "without a category" not in capsys.readouterr().out
