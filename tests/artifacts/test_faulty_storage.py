"""Artifacts through a storage service that fails: a fault that passes costs nothing, one that lasts is one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.artifacts.remote import fetch_artifact, open_remote, publish_remote, read_remote
from components.errors import KfrecError
from components.storage import Retry, fetch_file, open_store
from tests.artifacts.folders import files, published
from tests.fakes.faulty_storage import BUSY, CUT, DENIED, FLIPPED, LOST, MISSING, REFUSED, SILENT, SLOW, FaultyStorage
from tests.fakes.object_stores import BUCKET

CONTENT = {"train/part_0.tfrecord": bytes(range(256)) * 300, "spec.yaml": b"a: 1\n"}
_VARIABLES = {"gs": "STORAGE_EMULATOR_HOST", "s3": "AWS_ENDPOINT_URL"}
# The question for a manifest is a list, a description and a read, each of which meets every fault.
_AT_ONCE = Retry(30, first_wait=0.0)


@pytest.fixture(params=["gs", "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def proxy(kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyStorage]:
    request.getfixturevalue("gcs_bucket" if kind == "gs" else "s3_client")
    upstream = request.getfixturevalue("gcs_emulator" if kind == "gs" else "s3_emulator")
    monkeypatch.setattr("components.artifacts.remote.Retry", lambda attempts: _AT_ONCE)
    monkeypatch.setattr("components.storage.gcs._PATIENCE", None)  # or each try of an upload would take half a minute
    with FaultyStorage(upstream).running() as proxy:
        monkeypatch.setenv(_VARIABLES[kind], proxy.url)
        yield proxy


@pytest.fixture
def uri(kind: str, proxy: FaultyStorage) -> str:
    return f"{kind}://{BUCKET}/a"


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    return published(tmp_path / "made", CONTENT)


def is_of_file(method: str, path: str) -> bool:
    """Whether a request reads the content of one of the artifact's files."""
    is_content = "/storage/v1/" not in path or "alt=media" in path  # of Google's service, which has metadata, too
    named = any(name.rpartition("/")[2] in path for name in CONTENT)
    return method == "GET" and named and is_content and "prefix=" not in path


@pytest.mark.slow
def test_faults_that_pass_cost_nothing(artifact: Path, uri: str, proxy: FaultyStorage, tmp_path: Path) -> None:
    """Every request to send, to list and to fetch is refused, cut off and delayed in every way before it succeeds."""
    proxy.faults = (*BUSY, REFUSED, LOST, CUT, SLOW)
    published = publish_remote(artifact, uri)
    sent = proxy.failed
    assert open_remote(uri).digest == published.digest
    fetch_artifact(uri, tmp_path / "fetched")
    assert files(tmp_path / "fetched") == CONTENT
    assert sent > 7 * len(CONTENT) and proxy.failed > sent + 7 * len(CONTENT)


@pytest.mark.slow
def test_a_flipped_byte_is_noticed_and_fetched_again(
    artifact: Path, uri: str, proxy: FaultyStorage, tmp_path: Path
) -> None:
    publish_remote(artifact, uri)
    proxy.faults, proxy.wanted = (FLIPPED,), is_of_file
    fetch_artifact(uri, tmp_path / "fetched")
    assert files(tmp_path / "fetched") == CONTENT
    assert proxy.failed >= len(CONTENT)


@pytest.mark.slow
def test_a_flipped_byte_of_a_manifest_is_noticed_and_read_again(artifact: Path, uri: str, proxy: FaultyStorage) -> None:
    published = publish_remote(artifact, uri)
    manifest = (artifact / "_manifest.json").read_bytes()
    proxy.faults = (FLIPPED,)
    proxy.wanted = lambda method, path: method == "GET" and ("alt=media" in path or path.endswith("_manifest.json"))
    assert read_remote(uri, "_manifest.json") == manifest
    assert open_remote(uri).digest == published.digest
    assert proxy.failed


@pytest.mark.slow
def test_a_service_that_falls_silent_is_asked_again(
    artifact: Path, uri: str, proxy: FaultyStorage, tmp_path: Path
) -> None:
    publish_remote(artifact, uri)
    proxy.faults, proxy.wanted = (SILENT,), is_of_file
    store = open_store(uri, timeout=3.0)  # others answer sooner
    info = _AT_ONCE.call(uri, lambda: store.stat("train/part_0.tfrecord"))
    fetch_file(store, _AT_ONCE, info, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == CONTENT["train/part_0.tfrecord"]
    assert proxy.failed


@pytest.mark.slow
def test_an_object_that_is_replaced_while_it_is_read_is_read_anew(
    artifact: Path, uri: str, proxy: FaultyStorage, tmp_path: Path
) -> None:
    """Half of the old content has arrived when the connection breaks and another process uploads the object again."""
    publish_remote(artifact, uri)
    name = "train/part_0.tfrecord"
    (tmp_path / "damaged").write_bytes(CONTENT[name][::-1])
    open_store(uri).write(name, tmp_path / "damaged")
    proxy.faults, proxy.wanted = (CUT,), is_of_file

    def replaced(method: str, path: str) -> None:
        if is_of_file(method, path) and proxy.failed and not done:
            done.append(path)
            open_store(uri).write(name, artifact / name)

    done: list[str] = []
    proxy.before = replaced
    fetch_artifact(uri, tmp_path / "fetched")
    assert done and files(tmp_path / "fetched") == CONTENT


_LASTING = {
    "503": "gave up after 30 tries",
    REFUSED: "gave up after 30 tries",
    DENIED: "access denied",
    MISSING: "not there",
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", _LASTING)
def test_a_fault_that_lasts_is_one_line(
    fault: str, artifact: Path, uri: str, proxy: FaultyStorage, tmp_path: Path
) -> None:
    publish_remote(artifact, uri)
    proxy.faults, proxy.lasts = (fault,), True
    for attempt in (lambda: fetch_artifact(uri, tmp_path / "fetched"), lambda: publish_remote(artifact, uri)):
        with pytest.raises(KfrecError) as raised:
            attempt()
        assert _LASTING[fault] in str(raised.value) and uri in str(raised.value)
        assert "\n" not in str(raised.value) and len(str(raised.value)) < 400
    assert not (tmp_path / "fetched").exists() or not files(tmp_path / "fetched")
    proxy.faults = ()
    fetch_artifact(uri, tmp_path / "later")
    assert files(tmp_path / "later") == CONTENT


@pytest.mark.slow
@pytest.mark.parametrize("fault", [DENIED, "503"])
def test_a_fault_that_lasts_while_uploading_leaves_no_artifact(
    fault: str, artifact: Path, uri: str, proxy: FaultyStorage
) -> None:
    proxy.faults, proxy.lasts = (fault,), True
    # An upload to gs:// names the object in its body.
    proxy.wanted = lambda method, path: "uploadType" in path or (method == "PUT" and "part_0" in path)
    with pytest.raises(KfrecError) as raised:
        publish_remote(artifact, uri)
    assert uri in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(KfrecError, match="missing, so the artifact is unfinished"):
        open_remote(uri)
    proxy.faults = ()
    published = publish_remote(artifact, uri)
    assert open_remote(uri).digest == published.digest


def test_a_bucket_that_is_gone_is_one_line(artifact: Path, uri: str, tmp_path: Path) -> None:
    elsewhere = uri.replace(BUCKET, "no-such-bucket")
    for attempt in (
        lambda: fetch_artifact(elsewhere, tmp_path / "fetched"),
        lambda: publish_remote(artifact, elsewhere),
    ):
        with pytest.raises(KfrecError) as raised:
            attempt()
        assert "no-such-bucket" in str(raised.value) and "\n" not in str(raised.value)
