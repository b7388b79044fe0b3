"""Each kind of bad question gives one line that names the file and the remedy, or goes to the quarantine."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.errors import KfrecError
from tests.datasets.squad.questions import CONTEXT, article, articles, error_of, preprocess, question, raw_folder

ROOM = {"max_seq_length": 32, "max_query_length": 8}
BAD: dict[str, dict[str, Any]] = {
    "its answer 'blue' is not at character 12 of its context": {"answers": [{"text": "blue", "answer_start": 12}]},
    "its answer 'red' is not at character 0 of its context": {"answers": [{"text": "red", "answer_start": 0}]},
    "its answer ' ' has no words": {"answers": [{"text": " ", "answer_start": 3}]},
    "its answer '\\xad' has no words": {"answers": [{"text": "\xad", "answer_start": 0}]},
    "answer_start is None, and not a number of characters, such as 21": {"answers": [{"text": "red"}]},
    "answer_start is -1, and not a number of characters, such as 21": {
        "answers": [{"text": "red", "answer_start": -1}]
    },
    "an answer has no text": {"answers": [{"answer_start": 12}]},
    "answers is no list of objects": {"answers": "red"},
    "it has no answer; if that is meant, say is_impossible: true": {"answers": []},
    "it has no text question": {"question": None},
    "is_impossible is 'False'; say true or false": {"is_impossible": "False"},
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_question_is_kept_aside(reason: str, tmp_path: Path) -> None:
    body = [*articles(3), article("bad", question("bad", "red", **BAD[reason]), question("good", "red"))]
    raw = raw_folder(tmp_path / "raw", train=body)
    counts = preprocess(raw, tmp_path / "out", **ROOM, malformed_limit=0.1)
    assert (counts["questions"], counts["malformed_questions"]) == (13, 1)
    (line,) = (tmp_path / "out" / "quarantine" / "train.json.jsonl").read_text().splitlines()
    assert json.loads(line)["reason"] == reason and json.loads(line)["line"] == 13


def test_too_many_bad_questions_are_one_line(tmp_path: Path) -> None:
    reason = "its answer 'blue' is not at character 12 of its context"
    raw = raw_folder(tmp_path / "raw", train=[*articles(3), article("bad", question("bad", "red", **BAD[reason]))])
    assert error_of(raw, tmp_path / "out", **ROOM).endswith(
        f"train.json: 1 of 13 questions are not usable questions, the first is question 13 ({reason}); correct the "
        "file or raise malformed_limit (0.01)"
    )


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"{", r"train\.json: not JSON \(.*\); get a complete copy of it"),
        (b'{"data": ["\xe9"]}', r"train\.json: not UTF-8 text; write it as UTF-8"),
        ("{}".encode("utf-16"), r"train\.json: is UTF-16, not UTF-8; convert it"),
        (gzip.compress(b"{}", mtime=0), r"train\.json: is gzip, whatever its name says; unpack or convert it to JSON"),
        (b'{"a": 1}\n{"a": 2}\n', r"train\.json: holds several JSON values, as JSON Lines do; give one, \{"),
        (b"[]", r"train\.json: has no list data; give \{"),
        (b'{"data": [1]}', r"train\.json: article 0 of data has no list paragraphs; give"),
        (
            b'{"data": [{"paragraphs": [{"qas": []}]}]}',
            r"paragraph 0 of article 0 needs the text context and",
        ),
        (b"[" * 100_000, r"train\.json: (is nested too deeply|not JSON)"),
    ],
)
def test_what_is_no_file_of_questions_is_one_line(content: bytes, line: str, tmp_path: Path) -> None:
    message = error_of(raw_folder(tmp_path / "raw", train=content), tmp_path / "out", **ROOM)
    assert re.search(line, message), message


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"train": articles(2)}, "2 texts with questions, and every split needs one; give at least 3"),
        ({"train": articles(1), "dev": articles(1)}, "1 texts with questions, .* give at least 2"),
        ({"train": articles(3), "dev": []}, r"dev\.json: no questions in it; give a complete file, or remove it"),
        ({"train": articles(3), "vocab": "the\n"}, r"vocab\.txt: has no token \[PAD\]"),
        ({"train": [article("t", context=CONTEXT)]}, "0 texts with questions"),
    ],
)
def test_too_little_is_one_line(files: dict[str, Any], line: str, tmp_path: Path) -> None:
    message = error_of(raw_folder(tmp_path / "raw", **files), tmp_path / "out", **ROOM)
    assert re.search(line, message), message


def test_a_damaged_gzip_file_is_one_line(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", train_gz=articles(3))
    path = raw / "train.json.gz"
    path.write_bytes(path.read_bytes()[:-20])
    assert "train.json.gz: truncated or damaged gzip file" in error_of(raw, tmp_path / "out", **ROOM)


def test_a_question_without_room_for_the_text_is_one_line(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", train=articles(3))
    with pytest.raises(
        KfrecError, match="parameter max_query_length=64 leaves no room for the text in max_seq_length=64"
    ):
        preprocess(raw, tmp_path / "out", max_seq_length=64)
