"""S3, or any service that speaks its protocol at AWS_ENDPOINT_URL."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore import exceptions as boto
from botocore.config import Config

from components.errors import KfrecError
from components.storage.checksum import Checksum, md5_from_hex
from components.storage.opening import bucket_and_prefix
from components.storage.store import BLOCK, Changed, ObjectInfo, Store, Unavailable

_MISSING = {"404", "NoSuchKey", "NoSuchBucket", "NotFound"}
_DENIED = {"401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"}
_CHANGED = {"412", "416", "PreconditionFailed", "InvalidRange"}
_BUSY = {"SlowDown", "Throttling", "ThrottlingException", "RequestTimeout", "RequestLimitExceeded"}


class S3Store(Store):
    """Reads ranges tied to the ETag that was described.

    Uses the credentials boto3 finds; where there are none, reads as anyone may (public buckets).
    """

    def __init__(self, uri: str, timeout: float = 60.0) -> None:
        super().__init__(uri)
        self.bucket, self.prefix = bucket_and_prefix(uri)
        session = boto3.Session()
        options: dict[str, Any] = {}
        if session.get_credentials() is None:
            options["signature_version"] = UNSIGNED
        if os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT_URL_S3"):
            # Services other than AWS rarely have a host name for each bucket.
            options["s3"] = {"addressing_style": "path"}
        config = Config(connect_timeout=timeout, read_timeout=timeout, retries={"total_max_attempts": 1}, **options)
        self.client = session.client("s3", config=config)

    def names(self) -> list[str]:
        found: list[str] = []
        with self._explaining(self.uri):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.prefix, Delimiter="/"
            )
            for page in pages:
                found += [entry["Key"][len(self.prefix) :] for entry in page.get("Contents", ())]
        return sorted(name for name in found if name)

    def stat(self, name: str) -> ObjectInfo:
        with self._explaining(self.url(name)):
            head = self.client.head_object(Bucket=self.bucket, Key=self.prefix + name, ChecksumMode="ENABLED")
            return ObjectInfo(name, head["ContentLength"], head["ETag"], _checksum(head))

    def read(self, info: ObjectInfo, offset: int = 0) -> Iterator[bytes]:
        if offset and offset == info.size:
            return
        with self._explaining(self.url(info.name)):
            span = {"Range": f"bytes={offset}-"} if offset else {}
            answer = self.client.get_object(
                Bucket=self.bucket, Key=self.prefix + info.name, IfMatch=info.version, **span
            )
            yield from answer["Body"].iter_chunks(BLOCK)

    @contextmanager
    def _explaining(self, url: str) -> Iterator[None]:
        try:
            yield
        except boto.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            raise _explained(url, code, status) from error
        except (boto.ConnectionError, boto.HTTPClientError, boto.IncompleteReadError) as error:
            raise Unavailable("could not connect, or the connection broke off") from error
        except boto.BotoCoreError as error:
            raise KfrecError(f"{url}: {error}; check the AWS settings of this account") from error


def _explained(url: str, code: str, status: int) -> Exception:
    if code in _MISSING:
        return KfrecError(f"{url}: not there ({code}); check the source and the names of the files")
    if code in _DENIED:
        return KfrecError(f"{url}: access denied ({code}); check AWS_PROFILE or the keys, and the bucket's policy")
    if code in _CHANGED:
        return Changed(f"{url} was replaced")
    if code in _BUSY or status >= 500 or status == 429:
        return Unavailable(f"the service answered {code or status}")
    return KfrecError(f"{url}: the service answered {code or status}; check the source and the AWS settings")


def _checksum(head: dict[str, Any]) -> Checksum | None:
    """CRC32C of the whole object where S3 keeps one, else the ETag where it is a plain MD5.

    The ETag of an object uploaded in parts (with a dash) or encrypted with a key of KMS or the customer is not one.
    """
    crc32c = head.get("ChecksumCRC32C", "")
    if crc32c and "-" not in crc32c:
        return Checksum("crc32c", crc32c)
    etag = head["ETag"].strip('"')
    own_encryption = head.get("ServerSideEncryption", "AES256") == "AES256" and "SSECustomerAlgorithm" not in head
    return md5_from_hex(etag) if own_encryption and re.fullmatch(r"[0-9a-f]{32}", etag) else None
