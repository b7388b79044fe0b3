"""Which files of a source are no longer those that were fetched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from components.artifacts import open_artifact
from components.download.step import run
from components.download.wanted import changed_files
from components.errors import KfrecError
from components.steps.catalog import STEPS
from tests.download.raw_files import META, REVIEWS, meta, reviews
from tests.fakes.object_stores import Place


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / REVIEWS).write_bytes(reviews())
    (folder / META).write_bytes(meta())
    run(STEPS["download"].of(source=str(folder)), raw=tmp_path / "raw")
    return folder


def changes(source: object, tmp_path: Path) -> list[str]:
    return changed_files(STEPS["download"].of(source=str(source)), open_artifact(tmp_path / "raw"))


def test_a_source_that_was_not_touched_has_no_changes(source: Path, tmp_path: Path) -> None:
    assert changes(source, tmp_path) == []


def test_a_new_time_of_modification_is_no_change(source: Path, tmp_path: Path) -> None:
    os.utime(source / REVIEWS, (1, 1))
    assert changes(source, tmp_path) == []


def test_other_content_of_the_same_size_is_a_change(source: Path, tmp_path: Path) -> None:
    content = bytearray(reviews())
    content[-1] ^= 1
    (source / REVIEWS).write_bytes(content)
    assert changes(source, tmp_path) == [f"{source / REVIEWS} has changed"]


def test_new_and_missing_files_are_changes(source: Path, tmp_path: Path) -> None:
    (source / "reviews_Music.json.gz").write_bytes(reviews(10))
    (source / "notes.txt").write_text("no raw file")
    (source / META).rename(source / "meta_Music.json.gz")
    assert changes(source, tmp_path) == [
        f"{source / 'meta_Music.json.gz'} is new",
        f"{source / 'reviews_Music.json.gz'} is new",
        f"{source / META} is gone",
    ]


def test_a_source_that_is_gone_is_an_error(source: Path, tmp_path: Path) -> None:
    source.rename(tmp_path / "elsewhere")
    with pytest.raises(KfrecError, match="no such folder"):
        changes(source, tmp_path)


def test_synthetic_data_have_no_source(tmp_path: Path, source: Path) -> None:
    assert changes("synthetic", tmp_path) == []


def test_an_object_store_tells_by_its_checksums(prefix: Place, tmp_path: Path) -> None:
    prefix.put(REVIEWS, reviews())
    prefix.put(META, meta())
    run(STEPS["download"].of(source=prefix.uri), raw=tmp_path / "raw")
    assert changes(prefix.uri, tmp_path) == []
    prefix.put(META, reviews(3))
    assert changes(prefix.uri, tmp_path) == [f"{prefix.uri}/{META} has changed"]
