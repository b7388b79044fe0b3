"""What all kinds of storage have in common, told once and tried on each with a real server behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from components.errors import KfrecError
from components.storage import Changed, Unavailable, open_store
from tests.fakes.object_stores import BUCKET, Place, place_in_bucket

CONTENT = bytes(range(256)) * 40


@pytest.fixture(params=["folder", "http", "gs", "s3"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "folder":
        folder = request.getfixturevalue("tmp_path")
        return Place(str(folder), lambda name, body: (folder / name).write_bytes(body))
    if request.param == "http":
        server = request.getfixturevalue("server")
        return Place(f"{server.url}/data/", lambda name, body: server.files.update({f"/data/{name}": body}))
    return place_in_bucket(request.param, request)


def test_an_object_is_read_whole(place: Place) -> None:
    place.put("a.bin", CONTENT)
    store = open_store(place.uri)
    assert b"".join(store.read(store.stat("a.bin"))) == CONTENT


def test_an_object_is_read_from_an_offset(place: Place) -> None:
    place.put("a.bin", CONTENT)
    store = open_store(place.uri)
    assert b"".join(store.read(store.stat("a.bin"), 1000)) == CONTENT[1000:]


def test_the_size_is_known_before_reading(place: Place) -> None:
    place.put("a.bin", CONTENT)
    assert open_store(place.uri).stat("a.bin").size == len(CONTENT)


def test_a_stated_checksum_is_that_of_the_content(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    place.put("a.bin", CONTENT)
    checksum = open_store(place.uri).stat("a.bin").checksum
    copy = tmp_path_factory.mktemp("copy") / "a.bin"
    copy.write_bytes(CONTENT)
    assert checksum is None or checksum.matches(copy)
    assert (checksum is not None) == place.uri.startswith(("gs", "s3"))


# Not gs: the emulator ignores ifGenerationMatch on reads, so test_gcs.py has the server's answer instead.
@pytest.mark.parametrize("place", ["folder", "http", "s3"], indirect=True)
@pytest.mark.parametrize("offset", [0, 1000])
def test_an_object_replaced_since_it_was_described_is_not_read(place: Place, offset: int) -> None:
    place.put("a.bin", CONTENT)
    store = open_store(place.uri)
    info = store.stat("a.bin")
    place.put("a.bin", CONTENT[::-1] + b"longer")
    with pytest.raises(Changed):
        list(store.read(info, offset))


def test_a_missing_object_is_one_clear_line(place: Place) -> None:
    place.put("a.bin", CONTENT)
    store = open_store(place.uri)
    with pytest.raises(KfrecError, match=r"data/b\.bin: not there|b\.bin: no such file") as raised:
        store.stat("b.bin")
    assert "\n" not in str(raised.value)


def test_names_are_those_directly_below_the_prefix(place: Place) -> None:
    place.put("b.bin", CONTENT)
    place.put("a.bin", CONTENT)
    if place.uri.startswith(("gs", "s3")):
        place.put("deeper/c.bin", CONTENT)
    expected = None if place.uri.startswith("http") else ["a.bin", "b.bin"]
    assert open_store(place.uri).names() == expected


@pytest.fixture(params=["folder", "gs", "s3", "minio"])
def writable(request: pytest.FixtureRequest, place_of: Callable[[str], str]) -> str:
    return place_of(request.param)


@pytest.fixture
def place_of(request: pytest.FixtureRequest) -> Callable[[str], str]:
    def place(kind: str) -> str:
        if kind == "folder":
            return str(request.getfixturevalue("tmp_path"))
        request.getfixturevalue("gcs_bucket" if kind == "gs" else "s3_client")
        return f"{kind}://{BUCKET}/data"

    return place


def test_what_is_written_is_read_and_can_be_removed(writable: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    source = tmp_path_factory.mktemp("source") / "file"
    source.write_bytes(CONTENT)
    store = open_store(writable)
    store.write("deeper/a.bin", source)
    store.write("b.bin", source)
    assert b"".join(store.read(store.stat("deeper/a.bin"))) == CONTENT
    assert store.names() == ["b.bin"]
    assert store.folders() == ["deeper"]
    store.remove("b.bin")
    store.remove("b.bin")
    assert store.names() == []


def test_a_web_server_takes_nothing(server: object, tmp_path: Path) -> None:
    store = open_store(f"{server.url}/data/")  # type: ignore[attr-defined]
    for question in (lambda: store.write("a", tmp_path), lambda: store.remove("a"), store.folders):
        with pytest.raises(KfrecError, match="use a folder, gs://, s3:// or minio://"):
            question()


def test_a_bucket_that_does_not_exist_is_one_clear_line(
    place_of: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = tmp_path_factory.mktemp("source") / "file"
    source.write_bytes(CONTENT)
    for kind in ("gs", "s3"):
        store = open_store(place_of(kind).replace(BUCKET, "no-such-bucket"))
        with pytest.raises(KfrecError, match=f"{kind}://no-such-bucket/data: not there"):
            store.names()
        with pytest.raises(KfrecError, match=r"no-such-bucket/data/a\.bin") as raised:
            store.write("a.bin", source)
        assert "\n" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["http", "gs", "s3"])
def test_an_unreachable_service_is_worth_another_try(
    kind: str, place_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = "http://127.0.0.1:9" if kind == "http" else place_of(kind)
    for variable in ("STORAGE_EMULATOR_HOST", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="could not connect"):
        open_store(uri).stat("a")


def test_settings_in_a_pipeline_root_reach_the_client(s3_client: object, s3_emulator: str) -> None:
    host = s3_emulator.removeprefix("http://")
    store = open_store(f"s3://{BUCKET}/data?region=eu-west-1&endpoint={host}&disableSSL=true")
    assert store.uri == f"s3://{BUCKET}/data"
    assert store.client.meta.region_name == "eu-west-1"  # type: ignore[attr-defined]
    assert store.client.meta.endpoint_url == s3_emulator  # type: ignore[attr-defined]
    with pytest.raises(KfrecError, match="unknown setting colour; known are region, endpoint"):
        open_store(f"s3://{BUCKET}/data?colour=red")
