"""The emulators of Google Cloud Storage and S3, one of each a test session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.waiting import LONGEST

BUCKET = "kfrec-test"


@pytest.fixture(scope="session")
def gcs_emulator() -> Iterator[str]:
    """The URL of an in-memory gcp-storage-emulator that holds BUCKET."""
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket=BUCKET)
    with server:
        yield f"http://127.0.0.1:{server._api._httpd.server_address[1]}"


@pytest.fixture
def gcs_bucket(gcs_emulator: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """BUCKET, empty, as google-cloud-storage sees it; the environment points there."""
    import requests
    from google.cloud import storage

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_emulator)
    requests.get(f"{gcs_emulator}/wipe?keep-buckets=true", timeout=LONGEST)
    return storage.Client(project="test").bucket(BUCKET)


@pytest.fixture(scope="session")
def s3_emulator() -> Iterator[str]:
    """The URL of a moto server."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_client(s3_emulator: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A boto3 client of moto with BUCKET, empty; the environment points there."""
    import boto3
    import requests

    for name, value in {
        "AWS_ENDPOINT_URL": s3_emulator,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    requests.post(f"{s3_emulator}/moto-api/reset", timeout=LONGEST)
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


@dataclass(frozen=True)
class Place:
    """Somewhere to put an object and read it back."""

    uri: str
    put: Callable[[str, bytes], object]


def place_in_bucket(kind: str, request: pytest.FixtureRequest) -> Place:
    """A prefix of BUCKET by its kind, gs or s3."""
    uri = f"{kind}://{BUCKET}/data"
    if kind == "gs":
        bucket = request.getfixturevalue("gcs_bucket")
        return Place(uri, lambda name, body: bucket.blob(f"data/{name}").upload_from_string(body))
    client = request.getfixturevalue("s3_client")
    return Place(uri, lambda name, body: client.put_object(Bucket=BUCKET, Key=f"data/{name}", Body=body))


@pytest.fixture(params=["gs", "s3"])
def prefix(request: pytest.FixtureRequest) -> Place:
    return place_in_bucket(request.param, request)
