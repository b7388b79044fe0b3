from __future__ import annotations

from typing import Any

import pytest

from components.errors import KfrecError
from components.storage import Unavailable, open_store
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


def test_a_missing_bucket_is_one_clear_line(s3_client: Any) -> None:
    with pytest.raises(KfrecError, match="s3://no-such-bucket/data: not there"):
        open_store("s3://no-such-bucket/data").names()


def test_an_unreachable_service_is_worth_another_try(s3_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="could not connect"):
        open_store(f"s3://{BUCKET}/data").stat("a")


def test_without_credentials_a_bucket_is_read_as_anyone_may(s3_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_client.put_object(Bucket=BUCKET, Key="a.bin", Body=b"content", ACL="public-read")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = open_store(f"s3://{BUCKET}")
    assert b"".join(store.read(store.stat("a.bin"))) == b"content"
