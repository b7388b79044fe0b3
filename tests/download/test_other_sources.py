"""Downloads from a folder, from Google Cloud Storage and from S3."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from components.artifacts import open_artifact
from components.download.step import run
from components.errors import KfrecError
from components.progress import EVENTS, parse_event
from components.steps.catalog import STEPS
from components.storage import open_store
from tests.download.raw_files import META, REVIEWS, meta, reviews
from tests.fakes.object_stores import BUCKET, Place

THEIRS = 12345


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    (source / REVIEWS).write_bytes(reviews())
    (source / META).write_bytes(meta())
    (source / "README.txt").write_text("not raw data")
    return source


def download(source: object, raw: Path, **parameters: Any) -> dict[str, int]:
    return dict(run(STEPS["download"].of(source=str(source), **parameters), raw=raw))


def test_the_raw_files_of_a_folder_are_taken_and_no_others(folder: Path, tmp_path: Path) -> None:
    assert download(folder, tmp_path / "raw") == {"reviews": 2000, "items": 50}
    assert [entry.path for entry in open_artifact(tmp_path / "raw").files] == [META, REVIEWS]


def test_all_files_are_checked_under_one_bar(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(EVENTS, "1")
    download(folder, tmp_path / "raw")
    told = [event for line in capsys.readouterr().out.splitlines() if (event := parse_event(line))]
    size = sum((folder / name).stat().st_size for name in (REVIEWS, META))
    assert {event["label"] for event in told} == {"checking 2 files"}
    assert (told[-1]["done"], told[-1]["total"]) == (size, size)


def test_what_is_appended_to_the_source_does_not_reach_the_artifact(folder: Path, tmp_path: Path) -> None:
    download(folder, tmp_path / "raw")
    with (folder / REVIEWS).open("ab") as file:
        file.write(b"more")
    open_artifact(tmp_path / "raw").verify()
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()


def test_a_symbolic_link_within_the_source_is_followed(folder: Path, tmp_path: Path) -> None:
    (folder / REVIEWS).rename(folder / "elsewhere")
    (folder / REVIEWS).symlink_to("elsewhere")
    (tmp_path / "link").symlink_to(folder)
    download(tmp_path / "link", tmp_path / "raw")
    assert not (tmp_path / "raw" / REVIEWS).is_symlink()
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()


def test_a_folder_of_links_to_files_of_the_user_is_read(folder: Path, tmp_path: Path) -> None:
    """As DVC and git-annex keep files; a data lake has links to folders, too."""
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / REVIEWS).symlink_to(folder / REVIEWS)
    (tmp_path / "lake").symlink_to("source")
    (tmp_path / "links" / META).symlink_to("../lake/" + META)
    download(tmp_path / "links", tmp_path / "raw")
    assert (tmp_path / "raw" / META).read_bytes() == meta()


def test_a_symbolic_link_to_nothing_is_one_line(folder: Path, tmp_path: Path) -> None:
    (folder / "reviews_none.json").symlink_to("/nowhere")
    with pytest.raises(KfrecError, match=r"reviews_none.json: no such file"):
        download(folder, tmp_path / "raw", files=f"{META},reviews_none.json")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of other users")
@pytest.mark.parametrize(
    ("of_the_folder", "of_the_link", "of_the_file", "follows"),
    [
        (THEIRS, THEIRS, 0, False), (THEIRS, THEIRS, THEIRS, True), (0, 0, THEIRS, False), (THEIRS, 0, THEIRS, True),
        (THEIRS, 0, 0, True), (0, THEIRS, 0, False),
    ],
)  # fmt: skip
def test_whoever_supplies_a_source_names_no_file_of_the_user(
    of_the_folder: int, of_the_link: int, of_the_file: int, follows: bool, folder: Path, tmp_path: Path
) -> None:
    (folder / REVIEWS).rename(tmp_path / "private")
    (folder / REVIEWS).symlink_to(tmp_path / "private")
    os.chown(tmp_path / "private", of_the_file, of_the_file)
    os.chown(folder, of_the_folder, of_the_folder)
    os.chown(folder / REVIEWS, of_the_link, of_the_link, follow_symlinks=False)
    if follows:
        download(folder, tmp_path / "raw")
        return
    with pytest.raises(KfrecError, match=rf"{REVIEWS}: is a link that leads out of .*; put the file itself there"):
        download(folder, tmp_path / "raw")
    assert not (tmp_path / "raw").exists()


def test_an_empty_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        KfrecError, match=r"empty: no reviews_\*\.json or reviews_\*\.json\.gz file \(it holds no files\)"
    ):
        download(tmp_path / "empty", tmp_path / "raw")


def test_a_folder_without_metadata_is_one_clear_line(folder: Path, tmp_path: Path) -> None:
    (folder / META).unlink()
    with pytest.raises(KfrecError, match=r"no meta_\*.json or .* \(it holds README.txt, reviews_Books.json.gz\)"):
        download(folder, tmp_path / "raw")


@pytest.mark.parametrize(("dataset", "kinds"), [("text", "texts"), ("squad", "questions")])
def test_files_that_are_not_required_are_not_called_for(dataset: str, kinds: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(KfrecError, match=f"one of each kind is needed: {kinds}$"):
        download(tmp_path / "empty", tmp_path / "raw", dataset=dataset)


def test_the_data_sets_that_read_such_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "ratings.csv").write_text("user,item,time\n1,2,3\n")
    with pytest.raises(KfrecError, match=r"those of the data set events or movielens or tabular \(parameter dataset"):
        download(tmp_path / "tables", tmp_path / "raw")


def test_the_same_reviews_twice_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / REVIEWS.removesuffix(".gz")).write_text("{}\n")
    with pytest.raises(KfrecError, match=r"reviews_Books\.json exists twice"):
        download(folder, tmp_path / "raw")


def test_a_day_that_was_copied_under_another_name_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = tmp_path / "days"
    days.mkdir()
    for name, rows in (("1.csv", "u1,i1,1\nu2,i2,2\n"), ("2.csv", "u1,i1,3\nu2,i2,4\n"), ("3.csv", ""), ("4.csv", "")):
        (days / name).write_text(f"user,item,timestamp\n{rows}")
    shutil.copy(days / "2.csv", days / "copy.csv")
    download(days, tmp_path / "raw", dataset="events")
    out = capsys.readouterr().out
    assert "copy.csv: has the content of 2.csv, so its rows count twice; remove one" in out
    assert out.count("has the content of") == 1


def test_a_truncated_gz_names_the_file(folder: Path, tmp_path: Path) -> None:
    (folder / REVIEWS).write_bytes(reviews()[:5000])
    with pytest.raises(KfrecError, match=rf"{folder / REVIEWS}: the gzip file is truncated after 5000 bytes; get a"):
        download(folder, tmp_path / "raw")


def test_a_damaged_gz_names_the_file(folder: Path, tmp_path: Path) -> None:
    content = bytearray(reviews())
    content[-6] ^= 1
    (folder / REVIEWS).write_bytes(content)
    with pytest.raises(KfrecError, match=rf"{folder / REVIEWS}: the gzip file is damaged"):
        download(folder, tmp_path / "raw")


def test_a_gz_of_several_members_is_complete(folder: Path, tmp_path: Path) -> None:
    (folder / REVIEWS).write_bytes(reviews(10) + reviews(20) + b"\0" * 512)
    assert download(folder, tmp_path / "raw")["reviews"] == 30


def test_a_file_that_is_not_raw_data_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"parameter files: README\.txt is not named reviews_"):
        download(folder, tmp_path / "raw", files="README.txt")


def test_a_prefix_is_fetched_and_not_again(prefix: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in {REVIEWS: reviews(), META: meta(), "deeper/reviews_X.json": b"{}\n"}.items():
        prefix.put(name, content)
    download(prefix.uri, tmp_path / "raw")
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()
    monkeypatch.setattr(type(open_store(prefix.uri)), "read", None)
    download(f"{prefix.uri}/", tmp_path / "raw")
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()


def test_where_a_file_came_from_is_in_the_manifest(gcs_bucket: Any, tmp_path: Path) -> None:
    for name, content in {REVIEWS: reviews(), META: meta()}.items():
        gcs_bucket.blob(f"books/{name}").upload_from_string(content)
    download(f"gs://{BUCKET}/books", tmp_path / "raw")
    origin = open_artifact(tmp_path / "raw").origins[REVIEWS]
    assert origin["url"] == f"gs://{BUCKET}/books/{REVIEWS}"
    assert origin["version"] == str(gcs_bucket.get_blob(f"books/{REVIEWS}").generation)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("amazon_beauty", {"reviews": 198_502, "items": 12_101}),
        ("amazon_digital_music", {"reviews": 6_908, "items": 7_419}),
    ],
)
def test_real_files_are_complete(name: str, rows: dict[str, int], real_data: Path, tmp_path: Path) -> None:
    assert download(real_data / name, tmp_path / "raw") == rows


def test_folders_within_a_source_are_named(tmp_path: Path) -> None:
    (tmp_path / "source" / "2024").mkdir(parents=True)
    with pytest.raises(KfrecError, match=r"folders in it, such as 2024, are not read: name one as the source"):
        run(STEPS["download"].of(source=str(tmp_path / "source")), raw=tmp_path / "raw")


def test_the_lines_of_a_table_are_not_called_rows(tmp_path: Path) -> None:
    """The header is a line of a table, and none of its rows."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "table.csv").write_text("click,city\n1,a\n0,b\n")
    counts = download(tmp_path / "source", tmp_path / "raw", dataset="tabular")
    assert counts == {"lines": 3, "lines of schema": 0}
