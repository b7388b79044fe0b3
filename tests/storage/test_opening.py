from pathlib import Path

import pytest

from components.errors import KfrecError
from components.storage import open_store


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(KfrecError, match=r"cannot read ftp:// ; use a folder, http\(s\)://, gs://, s3:// or minio://"):
        open_store("ftp://host/data")


def test_what_is_no_address_is_one_clear_line() -> None:
    with pytest.raises(KfrecError, match=r"s3://\[::1: is not a valid URI \(Invalid IPv6 URL\); correct it"):
        open_store("s3://[::1")


def test_a_missing_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"nowhere: no such folder; check the path"):
        open_store(str(tmp_path / "nowhere"))


def test_a_file_instead_of_a_folder_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "reviews_A.json").write_text("")
    with pytest.raises(KfrecError, match=f"give the folder that holds it, {tmp_path}"):
        open_store(str(tmp_path / "reviews_A.json"))


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "with space").mkdir()
    (tmp_path / "with space" / "a.json").write_text("{}")
    assert open_store(f"file://{tmp_path}/with%20space").names() == ["a.json"]


def test_a_uri_without_bucket_is_refused() -> None:
    with pytest.raises(KfrecError, match="names no bucket"):
        open_store("gs:///data")


@pytest.mark.parametrize("uri", ["gs://bucket/day?1", "s3://bucket/day?1", "s3://bucket/day?region=eu&1"])
def test_a_prefix_that_continues_after_a_question_mark_is_refused(uri: str) -> None:
    """Another prefix would be read: the part before it."""
    with pytest.raises(KfrecError, match=r"what follows \? are settings, such as \?region=eu-west-1; name a prefix"):
        open_store(uri)
