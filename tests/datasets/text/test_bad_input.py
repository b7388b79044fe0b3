"""Each kind of bad text gives one line that names the file and the remedy, or goes to the quarantine."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from components.text.special import NAMES
from tests.datasets.text.corpus import error_of, preprocess, random_document, raw_folder, text_of

TEXT = text_of([random_document(seed) for seed in range(20)])


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"a": b"\xe9t\xe9\n" + TEXT.encode()}, r"a\.txt: 1 of .* lines are not lines of text, the first is line 1 \("
         r"byte 0xe9 is not UTF-8\); correct the file or raise malformed_limit"),
        ({"a": TEXT.encode("utf-16")}, r"a\.txt: is UTF-16, not UTF-8; convert"),
        ({"a": "x" * 100_000 + "\n" + TEXT}, r"the first is line 1 \(100,000 characters; write one sentence a line\)"),
        ({"a": ""}, "its files hold no text; check what download fetched"),
        ({"a": "\n \n\u200b\n\0\n"}, "its files hold no text; check what download fetched"),
        ({"a": "One. \nTwo.\n"}, "its files hold one document, .*; put blank lines between documents, or add files"),
        ({"a": TEXT, "vocab": "the\n"}, r"vocab\.txt: has no token \[PAD\]; take the vocabulary of a BERT"),
        ({"a": TEXT, "vocab": "\n".join(NAMES[:4])}, r"vocab\.txt: has no token \[MASK\]"),
        ({"a": TEXT, "a_gz": TEXT}, r"a\.txt: also exists as a\.txt\.gz; remove one of the two"),
    ],
)  # fmt: skip
def test_bad_texts_are_one_line(files: dict[str, str | bytes], line: str, tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", **files)
    message = error_of(raw, tmp_path / "out", malformed_limit=0.001)
    assert re.search(line, message), message


def test_a_damaged_gzip_file_is_one_line(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw")
    (raw / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode())[:-20])
    assert "truncated or damaged gzip file" in error_of(raw, tmp_path / "out")


def test_no_text_is_one_line(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw")
    (raw / "corpus.pdf").write_bytes(b"%PDF")
    assert "no *.txt or *.text, plain or with .gz here" in error_of(raw, tmp_path / "out")


def test_a_workflow_without_tokens_is_one_line(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", a=TEXT)
    assert "no vocabulary here" in error_of(raw, tmp_path / "out", workflow=str(tmp_path))


def test_a_few_bad_lines_are_left_out_and_kept_aside(tmp_path: Path) -> None:
    raw = raw_folder(tmp_path / "raw", a=b"\xff bad\n" + b"y" * 70_000 + b"\n" + TEXT.encode())
    counts = preprocess(raw, tmp_path / "out", malformed_limit=0.05)
    assert counts["malformed_lines"] == 2
    lines = (tmp_path / "out" / "quarantine" / "a.txt.jsonl").read_text().splitlines()
    assert [(entry["line"], entry["reason"]) for entry in map(json.loads, lines)] == [
        (1, "byte 0xff is not UTF-8"),
        (2, "70,000 characters; write one sentence a line"),
    ]
