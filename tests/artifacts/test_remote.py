"""Artifacts that travel through object storage, over the emulators' real protocols."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from components.artifacts import publishing
from components.artifacts.remote import (
    begin_remote,
    fetch_artifact,
    open_remote,
    publish_remote,
    read_remote,
    require_output_prefix,
)
from components.errors import KfrecError
from components.storage import Unavailable, open_store
from components.storage.gcs import GcsStore
from tests.artifacts.folders import files, published
from tests.fakes.object_stores import BUCKET

CONTENT = {"train/part_0.tfrecord": os.urandom(3_000_000), "train/part_1.tfrecord": b"x" * 10, "spec.yaml": b"a: 1\n"}


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    return published(tmp_path / "made", CONTENT)


# What tells stores apart is in tests/storage/test_every_store.py: a bucket and a folder do for most tests.
STORES = pytest.mark.parametrize("uri", ["gs", "s3", "minio", "folder"], indirect=True)


@pytest.fixture(params=["gs", "folder"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        (tmp_path / "there").mkdir()
        return str(tmp_path / "there")
    request.getfixturevalue("gcs_bucket" if request.param == "gs" else "s3_client")
    return f"{request.param}://{BUCKET}/runs/1/tfrecord"


@pytest.mark.slow
@STORES
def test_an_artifact_comes_back_as_it_was(artifact: Path, uri: str, tmp_path: Path) -> None:
    published = publish_remote(artifact, uri)
    assert open_remote(uri).digest == published.digest
    fetched = fetch_artifact(uri, tmp_path / "fetched")
    assert (fetched.digest, fetched.rows) == (published.digest, {"train": 5})
    assert files(tmp_path / "fetched") == CONTENT


def test_only_what_is_wanted_is_fetched(artifact: Path, uri: str, tmp_path: Path) -> None:
    publish_remote(artifact, uri)
    fetch_artifact(uri, tmp_path / "fetched", lambda path: path.endswith("part_1.tfrecord"))
    assert list(files(tmp_path / "fetched")) == ["train/part_1.tfrecord"]


def test_what_is_there_and_whole_is_not_fetched_again(
    artifact: Path, gcs_bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"gs://{BUCKET}/a"
    publish_remote(artifact, uri)
    fetch_artifact(uri, tmp_path / "fetched")
    (tmp_path / "fetched" / "spec.yaml").write_bytes(b"b: 1\n")  # the same size, another content
    fetched: list[str] = []
    read = GcsStore.read

    def counted(self: GcsStore, info: Any, offset: int = 0) -> Any:
        fetched.append(info.name)
        return read(self, info, offset)

    monkeypatch.setattr(GcsStore, "read", counted)
    fetch_artifact(uri, tmp_path / "fetched")
    assert fetched == ["_manifest.json", "spec.yaml"]
    assert files(tmp_path / "fetched") == CONTENT


def test_an_object_of_other_content_is_refused(
    artifact: Path, gcs_bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_remote(artifact, f"gs://{BUCKET}/a")
    gcs_bucket.blob("a/spec.yaml").upload_from_string(b"a: 2\n")
    monkeypatch.setattr("components.storage.retry.time.sleep", lambda seconds: None)
    monkeypatch.setattr("components.artifacts.remote.ATTEMPTS", 2)
    with pytest.raises(KfrecError, match=r"a/spec\.yaml: gave up after 2 tries \(what arrived has another checksum"):
        fetch_artifact(f"gs://{BUCKET}/a", tmp_path / "fetched")
    assert not (tmp_path / "fetched" / "spec.yaml").exists()
    assert not list((tmp_path / "fetched").glob(".*partial*"))


def test_a_connection_that_breaks_is_continued_where_it_ended(
    artifact: Path, gcs_bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_remote(artifact, f"gs://{BUCKET}/a")
    read, offsets = GcsStore.read, []

    def breaking(self: GcsStore, info: Any, offset: int = 0) -> Any:
        content = b"".join(read(self, info, offset))
        if info.name != "train/part_0.tfrecord":
            yield content
            return
        offsets.append(offset)
        yield content[:1_000_000]
        if offset < 2_000_000:
            raise Unavailable("the connection broke off")

    monkeypatch.setattr(GcsStore, "read", breaking)
    monkeypatch.setattr("components.storage.retry.time.sleep", lambda seconds: None)
    monkeypatch.setattr("components.artifacts.remote.ATTEMPTS", 2)
    fetch_artifact(f"gs://{BUCKET}/a", tmp_path / "fetched")
    assert offsets == [0, 1_000_000, 2_000_000]
    assert files(tmp_path / "fetched") == CONTENT


def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(
    artifact: Path, gcs_bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_remote(artifact, f"gs://{BUCKET}/a")

    class Small:
        f_bavail, f_frsize = 1, 4096

    monkeypatch.setattr("components.artifacts.remote.os.statvfs", lambda path: Small)
    with pytest.raises(KfrecError, match=r"fetched: needs 0\.00 GB and has 0\.00 GB free; give it a larger disk"):
        fetch_artifact(f"gs://{BUCKET}/a", tmp_path / "fetched")
    assert files(tmp_path / "made") and not (tmp_path / "fetched").exists()


def test_a_manifest_that_was_changed_is_refused(artifact: Path, uri: str, tmp_path: Path) -> None:
    publish_remote(artifact, uri)
    body = json.loads(read_remote(uri, "_manifest.json") or b"")
    body["files"][0]["size"] += 1
    (tmp_path / "changed").write_text(json.dumps(body))
    open_store(uri).write("_manifest.json", tmp_path / "changed")
    with pytest.raises(KfrecError, match="its digest does not match its list of files"):
        open_remote(uri)


def test_a_prefix_that_holds_something_else_is_left_alone(artifact: Path, uri: str, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("from somebody")
    open_store(uri).write("letter.txt", tmp_path / "letter.txt")
    with pytest.raises(KfrecError, match=r"holds letter\.txt, which the tfrecord step did not write"):
        publish_remote(artifact, uri)
    assert (open_store(uri).names(), open_store(uri).folders()) == (["letter.txt"], [])


def test_an_artifact_of_another_step_is_left_alone(artifact: Path, uri: str, tmp_path: Path) -> None:
    with publishing(tmp_path / "model", step="train") as staging:
        (staging.path / "weights").write_text("hours of work")
    published = publish_remote(tmp_path / "model", uri)
    with pytest.raises(KfrecError, match="is of the step train, not of tfrecord"):
        publish_remote(artifact, uri)
    assert open_remote(uri).digest == published.digest


@pytest.mark.parametrize(("other", "overlaps"), [("", True), ("/below", True), ("/..", True), ("-2", False)])
def test_a_prefix_that_is_read_is_not_written_to(gcs_bucket: Any, other: str, overlaps: bool) -> None:
    uri = f"gs://{BUCKET}/runs/1"
    output = f"gs://{BUCKET}/runs" if other == "/.." else uri + other
    if overlaps:
        with pytest.raises(KfrecError, match="which is read"):
            require_output_prefix(output, "train", [uri])
    else:
        require_output_prefix(output, "train", [uri])


def test_an_interrupted_upload_is_taken_up_by_the_same_step_only(artifact: Path, uri: str) -> None:
    begin_remote(uri, "tfrecord")
    open_store(uri).write("train/part_0.tfrecord", artifact / "train" / "part_0.tfrecord")
    with pytest.raises(KfrecError, match="is of the step tfrecord, not of train"):
        require_output_prefix(uri, "train")
    publish_remote(artifact, uri)
    assert open_remote(uri).step == "tfrecord"
    assert "_manifest.json.partial" not in (open_store(uri).names() or ())
