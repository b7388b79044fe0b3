from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.storage import open_store
from components.storage.s3 import KFP_STORE, S3Store
from tests.fakes.handler import QuietHandler, serving
from tests.fakes.object_stores import BUCKET


def test_the_etag_of_an_object_uploaded_in_parts_is_no_checksum(s3_client: Any) -> None:
    upload = s3_client.create_multipart_upload(Bucket=BUCKET, Key="data/a.bin")
    parts = []
    for number, body in ((1, b"a" * (5 << 20)), (2, b"b")):
        part = s3_client.upload_part(
            Bucket=BUCKET, Key="data/a.bin", UploadId=upload["UploadId"], PartNumber=number, Body=body
        )
        parts.append({"ETag": part["ETag"], "PartNumber": number})
    s3_client.complete_multipart_upload(
        Bucket=BUCKET, Key="data/a.bin", UploadId=upload["UploadId"], MultipartUpload={"Parts": parts}
    )
    info = open_store(f"s3://{BUCKET}/data").stat("a.bin")
    assert info.checksum is None
    assert info.version


def test_without_credentials_a_bucket_is_read_as_anyone_may(s3_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_client.put_object(Bucket=BUCKET, Key="a.bin", Body=b"content", ACL="public-read")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = open_store(f"s3://{BUCKET}")
    assert b"".join(store.read(store.stat("a.bin"))) == b"content"


class WithoutChecksums(QuietHandler):
    """A store of S3's protocol before the checksums of 2025: it refuses their headers and their chunked bodies."""

    kept: dict[str, bytes]

    def do_PUT(self) -> None:
        body = self.body()
        new = [name for name in self.headers if name.lower().startswith(("x-amz-checksum", "x-amz-sdk-checksum"))]
        if new or "aws-chunked" in self.headers.get("Content-Encoding", ""):
            self.reply(501, b"<Error><Code>NotImplemented</Code><Message>A header is not implemented</Message></Error>")
            return
        self.kept[self.path] = body
        self.reply(200, b"", ETag='"0123"')

    def do_GET(self) -> None:
        self.reply(200, self.kept[self.path], ETag='"0123"')

    do_HEAD = do_GET


@pytest.fixture
def without_checksums(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with serving(type("Store", (WithoutChecksums,), {"kept": {}})) as url:
        yield url


@pytest.mark.slow
@pytest.mark.parametrize("by_root", [False, True])
def test_a_store_that_knows_no_checksums_takes_and_gives_files(
    without_checksums: str, by_root: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = f"?endpoint={without_checksums}" if by_root else ""
    if not by_root:
        monkeypatch.setenv("AWS_ENDPOINT_URL", without_checksums)
    (tmp_path / "a").write_bytes(b"content")
    store = open_store(f"s3://{BUCKET}/data{settings}")
    store.write("a", tmp_path / "a")
    assert b"".join(store.read(store.stat("a"))) == b"content"


@pytest.mark.parametrize(
    "endpoint", ["", "https://s3.eu-west-1.amazonaws.com", "https://s3.cn-north-1.amazonaws.com.cn"]
)
def test_aws_itself_gets_checksums(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    store = open_store(f"s3://{BUCKET}")
    assert isinstance(store, S3Store)
    assert store.client.meta.config.request_checksum_calculation == "when_supported"


def test_minio_is_the_store_of_kfp_where_nothing_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    store = open_store(f"minio://{BUCKET}")
    assert isinstance(store, S3Store)
    assert store.client.meta.endpoint_url == KFP_STORE == "http://seaweedfs.kubeflow:9000"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio-service.kubeflow:9000")
    store = open_store(f"minio://{BUCKET}")
    assert isinstance(store, S3Store)
    assert store.client.meta.endpoint_url == "http://minio-service.kubeflow:9000"
