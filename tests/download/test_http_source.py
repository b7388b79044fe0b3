"""Downloads over http from a real server that misbehaves."""

from __future__ import annotations

import base64
import gzip
import hashlib
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from components.artifacts import open_artifact
from components.download.step import run
from components.errors import KfrecError
from components.steps.catalog import STEPS
from components.storage import Retry
from tests.download.raw_files import META, REVIEWS, meta, reviews
from tests.fakes.file_server import Fault, FileServer
from tests.waiting import LONGEST

PATH = f"/books/{REVIEWS}"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the step wanted to wait; it does not."""
    waited: list[float] = []
    *others, _ = Retry.__init__.__defaults__  # type: ignore[misc]
    monkeypatch.setattr(Retry.__init__, "__defaults__", (*others, waited.append))
    return waited


@pytest.fixture
def books(server: FileServer) -> FileServer:
    server.files = {PATH: reviews(), f"/books/{META}": meta()}
    return server


def download(server: FileServer, raw: Path, **parameters: object) -> dict[str, int]:
    return dict(run(STEPS["download"].of(source=f"{server.url}/books", **parameters), raw=raw))


def test_the_amazon_books_files_are_fetched_by_default(books: FileServer, tmp_path: Path) -> None:
    rows = download(books, tmp_path / "raw")
    assert rows == {"reviews": 2000, "items": 50}
    assert [entry.path for entry in open_artifact(tmp_path / "raw").files] == [META, REVIEWS]
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()


def test_named_files_are_fetched_instead(books: FileServer, tmp_path: Path) -> None:
    books.files["/books/5core/reviews_Beauty.json.gz"] = reviews(10)
    download(books, tmp_path / "raw", files=f"5core/reviews_Beauty.json.gz, {META}")
    assert sorted(path.name for path in (tmp_path / "raw").glob("*.gz")) == [META, "reviews_Beauty.json.gz"]


def test_a_dropped_connection_is_continued_where_it_ended(books: FileServer, tmp_path: Path) -> None:
    books.faults[PATH] = [Fault(drop_after=9000), Fault(drop_after=1000)]
    download(books, tmp_path / "raw")
    assert [asked.span for asked in books.gets(PATH)] == ["", "bytes=9000-", "bytes=10000-"]
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()


def test_progress_between_failures_resets_the_tries(books: FileServer, tmp_path: Path) -> None:
    books.faults[PATH] = [Fault(drop_after=1000) for _ in range(6)]
    download(books, tmp_path / "raw", attempts=2)
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()


def test_a_file_that_never_comes_further_is_given_up(books: FileServer, tmp_path: Path) -> None:
    books.etags = False  # so that every try has to begin anew
    books.faults[PATH] = [Fault(drop_after=9000) for _ in range(20)]
    with pytest.raises(KfrecError, match=rf"{PATH}: gave up after 3 tries \(the connection broke off"):
        download(books, tmp_path / "raw", attempts=3)
    assert len(books.gets(PATH)) == 3


def test_a_file_replaced_during_the_download_is_not_spliced(books: FileServer, tmp_path: Path) -> None:
    newer = reviews(2500)
    books.faults[PATH] = [Fault(drop_after=9000, then=lambda: books.files.update({PATH: newer}))]
    download(books, tmp_path / "raw")
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == newer


def test_a_server_that_recovers_is_tried_again(books: FileServer, tmp_path: Path, waits: list[float]) -> None:
    books.faults[PATH] = [Fault(status=500), Fault(status=503), Fault(status=429)]
    download(books, tmp_path / "raw")
    assert len(books.gets(PATH)) == 4
    assert [0.25 <= waits[0] <= 0.5, 0.5 <= waits[1] <= 1.0, 1.0 <= waits[2] <= 2.0] == [True] * 3


def test_a_server_that_asks_to_wait_is_obeyed(books: FileServer, tmp_path: Path, waits: list[float]) -> None:
    books.faults[PATH] = [Fault(status=503, headers={"Retry-After": "9"})]
    download(books, tmp_path / "raw")
    assert waits == [9.0]


def test_a_server_that_asks_to_wait_for_a_day_is_not(books: FileServer, tmp_path: Path, waits: list[float]) -> None:
    books.faults[PATH] = [Fault(status=503, headers={"Retry-After": "86400"}), Fault(status=429)]
    download(books, tmp_path / "raw", longest_wait=0.125)
    assert waits == [0.125, 0.125]


@pytest.mark.parametrize("lengths", [True, False], ids=["the source says the size", "the source does not say it"])
def test_a_source_larger_than_allowed_is_refused(books: FileServer, tmp_path: Path, lengths: bool) -> None:
    books.lengths = lengths
    size = len(reviews()) + len(meta())
    with pytest.raises(KfrecError, match=r"have more than .* GB; choose fewer, or raise largest_download"):
        download(books, tmp_path / "raw", largest_download=(size - 1) / 1e9)
    assert not (tmp_path / "raw").exists()
    download(books, tmp_path / "raw", largest_download=size / 1e9)


def test_a_server_that_stays_down_is_one_clear_line(books: FileServer, tmp_path: Path) -> None:
    books.faults[PATH] = [Fault(status=500) for _ in range(3)]
    with pytest.raises(
        KfrecError, match=rf"{PATH}: gave up after 3 tries \(the server answered 500 .*run again"
    ) as told:
        download(books, tmp_path / "raw", attempts=3)
    assert "\n" not in str(told.value)


def test_a_missing_file_is_not_tried_again(books: FileServer, tmp_path: Path) -> None:
    del books.files[PATH]
    with pytest.raises(KfrecError, match=rf"{PATH}: not there \(404 Not Found\)"):
        download(books, tmp_path / "raw")
    assert len(books.asked) == 1


def test_a_server_that_never_sends_what_its_checksum_says_is_given_up(books: FileServer, tmp_path: Path) -> None:
    books.headers[PATH] = {"Content-MD5": base64.b64encode(hashlib.md5(b"other").digest()).decode()}
    with pytest.raises(KfrecError, match=r"gave up after 2 tries \(the md5 of what arrived differs"):
        download(books, tmp_path / "raw", attempts=2)


def test_an_unnoticed_cut_is_found_and_repaired(books: FileServer, tmp_path: Path) -> None:
    # No length is told, so the connection that closes early looks like the end of the file.
    books.lengths = False
    books.faults[PATH] = [Fault(drop_after=9000)]
    download(books, tmp_path / "raw")
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()


def test_an_error_page_instead_of_the_file_is_one_clear_line(books: FileServer, tmp_path: Path) -> None:
    books.files[PATH] = b"<html>please log in</html>"
    with pytest.raises(KfrecError, match=rf"{PATH}: not a gzip file"):
        download(books, tmp_path / "raw")


def test_a_failed_download_leaves_the_earlier_output(books: FileServer, tmp_path: Path) -> None:
    download(books, tmp_path / "raw")
    before = open_artifact(tmp_path / "raw").digest
    books.files[PATH] = reviews(2500)[:-20]
    with pytest.raises(KfrecError, match="truncated"):
        download(books, tmp_path / "raw")
    assert open_artifact(tmp_path / "raw").digest == before
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_a_second_run_into_the_same_output_fetches_nothing(books: FileServer, tmp_path: Path) -> None:
    first = download(books, tmp_path / "raw")
    books.asked.clear()
    assert download(books, tmp_path / "raw") == first
    assert books.gets() == []


def test_a_second_run_fetches_only_what_changed(books: FileServer, tmp_path: Path) -> None:
    download(books, tmp_path / "raw")
    books.files[PATH] = reviews(2500)
    books.asked.clear()
    download(books, tmp_path / "raw")
    assert [asked.path for asked in books.gets()] == [PATH]
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews(2500)


def test_a_damaged_earlier_output_is_fetched_again(books: FileServer, tmp_path: Path) -> None:
    download(books, tmp_path / "raw")
    damaged = bytearray(reviews())
    damaged[500] ^= 1
    (tmp_path / "raw" / REVIEWS).write_bytes(damaged)
    download(books, tmp_path / "raw")
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()


def test_a_cache_serves_another_output(books: FileServer, tmp_path: Path) -> None:
    download(books, tmp_path / "first", cache_dir=str(tmp_path / "cache"))
    books.asked.clear()
    download(books, tmp_path / "second", cache_dir=str(tmp_path / "cache"))
    assert books.gets() == []
    assert open_artifact(tmp_path / "second").digest == open_artifact(tmp_path / "first").digest


def test_what_is_appended_to_the_cache_does_not_reach_the_artifact(books: FileServer, tmp_path: Path) -> None:
    download(books, tmp_path / "raw", cache_dir=str(tmp_path / "cache"))
    (cached,) = (tmp_path / "cache").rglob(REVIEWS)
    with cached.open("ab") as file:
        file.write(b"more")
    open_artifact(tmp_path / "raw").verify()
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()


def test_a_file_of_an_earlier_output_is_written_anew(books: FileServer, tmp_path: Path) -> None:
    download(books, tmp_path / "raw")
    # A second name of the earlier file, as a snapshot made with links has it.
    (tmp_path / "snapshot").hardlink_to(tmp_path / "raw" / REVIEWS)
    download(books, tmp_path / "raw")
    assert not (tmp_path / "snapshot").samefile(tmp_path / "raw" / REVIEWS)


def test_a_cache_resumes_what_an_earlier_run_left(books: FileServer, tmp_path: Path) -> None:
    books.faults[PATH] = [Fault(drop_after=9000)]
    with pytest.raises(KfrecError, match="gave up after 1 tries"):
        download(books, tmp_path / "raw", cache_dir=str(tmp_path / "cache"), attempts=1)
    books.asked.clear()
    download(books, tmp_path / "raw", cache_dir=str(tmp_path / "cache"))
    assert [asked.span for asked in books.gets(PATH)] == ["bytes=9000-"]
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews()


@pytest.mark.parametrize("planted", [f"{REVIEWS}.partial", f"{REVIEWS}.partial.origin.json"])
def test_links_that_another_user_of_a_shared_cache_has_made_are_not_followed(
    books: FileServer, tmp_path: Path, planted: str
) -> None:
    books.faults[PATH] = [Fault(drop_after=9000)]
    with pytest.raises(KfrecError, match="gave up after 1 tries"):
        download(books, tmp_path / "raw", cache_dir=str(tmp_path / "cache"), attempts=1)
    (tmp_path / "victim").write_text("precious")
    (link,) = (tmp_path / "cache").rglob(planted)
    link.unlink()
    link.symlink_to(tmp_path / "victim")
    with suppress(KfrecError):
        download(books, tmp_path / "raw", cache_dir=str(tmp_path / "cache"))
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_partial_file_of_another_version_is_not_resumed(books: FileServer, tmp_path: Path) -> None:
    books.faults[PATH] = [Fault(drop_after=9000)]
    with pytest.raises(KfrecError, match="gave up"):
        download(books, tmp_path / "raw", cache_dir=str(tmp_path / "cache"), attempts=1)
    books.files[PATH] = reviews(2500)
    books.asked.clear()
    download(books, tmp_path / "raw", cache_dir=str(tmp_path / "cache"))
    assert [asked.span for asked in books.gets(PATH)] == [""]
    assert (tmp_path / "raw" / REVIEWS).read_bytes() == reviews(2500)


def test_a_cached_file_whose_source_changed_is_fetched_again(books: FileServer, tmp_path: Path) -> None:
    download(books, tmp_path / "first", cache_dir=str(tmp_path / "cache"))
    books.files[PATH] = gzip.compress(gzip.decompress(reviews()).replace(b"1", b"2"), mtime=0)
    download(books, tmp_path / "second", cache_dir=str(tmp_path / "cache"))
    assert (tmp_path / "second" / REVIEWS).read_bytes() == books.files[PATH]


def test_a_file_cut_off_at_the_source_is_fetched_anew_once_the_source_is_mended(
    books: FileServer, tmp_path: Path
) -> None:
    cache = str(tmp_path / "cache")
    books.files[PATH] = reviews()[:-20]
    with pytest.raises(KfrecError, match="truncated"):
        download(books, tmp_path / "raw", cache_dir=cache)
    books.files[PATH] = reviews()
    assert download(books, tmp_path / "raw", cache_dir=cache) == {"reviews": 2000, "items": 50}


def test_a_source_that_states_nothing_is_fetched_again(books: FileServer, tmp_path: Path) -> None:
    books.etags = books.lengths = False
    download(books, tmp_path / "raw")
    books.asked.clear()
    download(books, tmp_path / "raw")
    assert len([asked for asked in books.gets() if asked.status == 200]) == 2


def test_a_file_as_source_asks_for_its_place(books: FileServer, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="is a file; give the folder or prefix that holds it as source"):
        run(STEPS["download"].of(source=f"{books.url}{PATH}"), raw=tmp_path / "raw")


def test_a_silent_server_fails_after_the_timeout(books: FileServer, tmp_path: Path) -> None:
    given_up = threading.Event()

    def stay_silent() -> None:
        given_up.wait(LONGEST)

    books.faults[PATH] = [Fault(drop_after=9000, then=stay_silent)]
    try:
        with pytest.raises(KfrecError, match="the server fell silent"):
            download(books, tmp_path / "raw", timeout=1.0, attempts=1)
    finally:
        given_up.set()
