"""Artifacts as references: the data stay in object storage, and steps fetch what they read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from components.artifacts import open_artifact, open_input
from components.artifacts.reference import data_uri, publishing_reference
from components.artifacts.remote import fetch_artifact, open_remote, publish_remote
from components.errors import KfrecError
from components.storage.gcs import GcsStore
from tests.artifacts.folders import files, published
from tests.fakes.object_stores import BUCKET

URI = f"gs://{BUCKET}/pipeline/run/tfrecord/records"
CONTENT = {"train/part_0": os.urandom(300_000), "test/part_0": os.urandom(100_000), "spec.yaml": b"a: 1\n"}


@pytest.fixture
def reference(gcs_bucket: Any, tmp_path: Path) -> Path:
    with publishing_reference(URI, tmp_path / "kfp") as folder:
        published(folder, CONTENT)
    return tmp_path / "kfp"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("gs://b/run/task/model", "gs://b/run/task/_data/model"),
        ("s3://b/model?region=eu-west-1", "s3://b/_data/model?region=eu-west-1"),
        ("minio://b/a/model/", "minio://b/a/_data/model"),
    ],
)
def test_data_lie_where_kfp_copies_nothing(uri: str, expected: str) -> None:
    assert data_uri(uri) == expected
    assert not expected.startswith(uri.rstrip("/"))


def test_a_reference_holds_the_manifest_and_the_small_files(reference: Path) -> None:
    assert set(files(reference)) == {"_manifest.json", "spec.yaml"}
    found = open_artifact(reference, steps=("tfrecord",))
    assert (found.data_uri, found.rows) == (data_uri(URI), {"train": 5})
    assert found.digest == open_remote(data_uri(URI)).digest


def test_a_step_has_here_what_it_reads_and_nothing_else(reference: Path) -> None:
    given = open_input(reference, steps=("tfrecord",), reads=("spec.yaml", "test"))
    assert given.path != reference
    assert {name: body for name, body in files(given.path).items() if name != "_manifest.json"} == {
        name: CONTENT[name] for name in ("spec.yaml", "test/part_0")
    }
    assert [path.name for path in given.paths("test/*")] == ["part_0"]
    everything = open_input(reference, steps=("tfrecord",))
    assert set(files(everything.path)) == {*CONTENT, "_manifest.json"}


def test_a_name_that_begins_alike_is_not_read(gcs_bucket: Any, tmp_path: Path) -> None:
    with publishing_reference(URI, tmp_path / "kfp") as folder:
        published(folder, {"test/a": b"1", "test_more/a": b"2" * 100_000})
    given = open_input(tmp_path / "kfp", steps=("tfrecord",), reads=("test",))
    assert not (given.path / "test_more").exists()


def test_a_folder_of_files_is_read_where_it_is(tmp_path: Path) -> None:
    folder = published(tmp_path / "here", CONTENT)
    assert open_input(folder, steps=("tfrecord",), reads=("spec.yaml",)).path == folder


def test_a_step_may_publish_its_data_itself(gcs_bucket: Any, tmp_path: Path) -> None:
    with publishing_reference(URI, tmp_path / "kfp"):
        publish_remote(published(tmp_path / "made", CONTENT), data_uri(URI))
    assert set(files(tmp_path / "kfp")) == {"_manifest.json", "spec.yaml"}
    assert open_artifact(tmp_path / "kfp").data_uri == data_uri(URI)


def test_a_step_that_fails_leaves_no_reference(gcs_bucket: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="broken"), publishing_reference(URI, tmp_path / "kfp"):
        raise ValueError("broken")
    assert not (tmp_path / "kfp").exists() and not list(gcs_bucket.list_blobs())


def test_a_reference_in_object_storage_is_followed(reference: Path, gcs_bucket: Any, tmp_path: Path) -> None:
    for name, body in files(reference).items():  # as KFP uploads it
        gcs_bucket.blob(f"pipeline/run/tfrecord/records/{name}").upload_from_string(body)
    fetch_artifact(URI, tmp_path / "fetched")
    assert files(tmp_path / "fetched") == CONTENT


def test_data_that_are_gone_are_named(reference: Path, gcs_bucket: Any) -> None:
    for blob in gcs_bucket.list_blobs():
        blob.delete()
    with pytest.raises(KfrecError, match=f"^{data_uri(URI)}/_manifest.json: missing"):
        open_input(reference, steps=("tfrecord",))


def test_other_data_at_the_place_are_refused(reference: Path, gcs_bucket: Any, tmp_path: Path) -> None:
    publish_remote(published(tmp_path / "other", {"spec.yaml": b"b: 2\n"}), data_uri(URI))
    with pytest.raises(KfrecError, match="holds other data than"):
        open_input(reference, steps=("tfrecord",))


def test_an_upload_that_broke_off_sends_only_the_rest(
    gcs_bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = published(tmp_path / "made", CONTENT)
    write_object, sent = GcsStore.write, []

    def counted(self: GcsStore, name: str, source: Path) -> None:
        sent.append(name)
        if name == "_manifest.json" and sent.count(name) == 1:
            raise KfrecError("the pod was taken away")
        write_object(self, name, source)

    monkeypatch.setattr(GcsStore, "write", counted)
    with pytest.raises(KfrecError, match="taken away"):
        publish_remote(folder, data_uri(URI))
    sent_before = len(sent)
    publish_remote(folder, data_uri(URI))
    assert sent[sent_before:] == ["_manifest.json.partial", "_manifest.json"]
    fetch_artifact(data_uri(URI), tmp_path / "fetched")
    assert files(tmp_path / "fetched") == CONTENT
