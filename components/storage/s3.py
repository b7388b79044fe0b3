"""S3, or any service that speaks its protocol at AWS_ENDPOINT_URL."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import boto3
from boto3.exceptions import S3UploadFailedError
from botocore import UNSIGNED
from botocore import exceptions as boto
from botocore.config import Config

from components.errors import KfrecError, certificate_problem
from components.storage.blocked import require_no_metadata_behind
from components.storage.opening import bucket_and_prefix
from components.storage.store import BLOCK, Changed, Checksum, ObjectInfo, Store, Unavailable, md5_from_hex

_MISSING = {"404", "NoSuchKey", "NoSuchBucket", "NotFound"}
_DENIED = {"401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"}
_CHANGED = {"412", "416", "PreconditionFailed", "InvalidRange"}
_BUSY = {"SlowDown", "Throttling", "ThrottlingException", "RequestTimeout", "RequestLimitExceeded"}

# Where KFP 2.16 and later keep artifacts; before, minio-service.kubeflow:9000 (AWS_ENDPOINT_URL of the overlay).
KFP_STORE = "http://seaweedfs.kubeflow:9000"
# Settings in a KFP pipeline root, and the client's names for them; settings without a name are ignored.
_QUERY = {"region": "region_name", "endpoint": "endpoint_url", "disableSSL": "", "s3ForcePathStyle": ""}


class S3Store(Store):
    """Reads ranges pinned to the described ETag.

    Uses the credentials boto3 finds; without any, reads anonymously (public buckets).
    """

    def __init__(self, uri: str, timeout: float = 60.0) -> None:
        location, settings = _settings_of(uri)
        super().__init__(location)
        self.bucket, self.prefix = bucket_and_prefix(uri)
        session = boto3.Session()
        options: dict[str, Any] = {}
        if session.get_credentials() is None:
            options["signature_version"] = UNSIGNED
        endpoint = (
            settings.get("endpoint_url")
            or os.environ.get("AWS_ENDPOINT_URL_S3", "")
            or os.environ.get("AWS_ENDPOINT_URL", "")
        )
        if endpoint:
            # Services other than AWS rarely have a host name for each bucket.
            options["s3"] = {"addressing_style": "path"}
        if endpoint and not _is_aws(endpoint):
            # Some reject the checksums that boto adds by default, or the chunked bodies that carry them.
            options["request_checksum_calculation"] = options["response_checksum_validation"] = "when_required"
        config = Config(connect_timeout=timeout, read_timeout=timeout, retries={"total_max_attempts": 1}, **options)
        self.client = session.client("s3", config=config, **settings)

    def names(self) -> list[str]:
        return sorted(filter(None, self._listed("Contents", "Key")))

    def folders(self) -> list[str]:
        return sorted(name.strip("/") for name in self._listed("CommonPrefixes", "Prefix"))

    def _listed(self, kind: str, key: str) -> list[str]:
        with self._explaining(self.uri):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.prefix, Delimiter="/"
            )
            return [entry[key][len(self.prefix) :] for page in pages for entry in page.get(kind, ())]

    def stat(self, name: str) -> ObjectInfo:
        with self._explaining(self.url(name)):
            head = self.client.head_object(Bucket=self.bucket, Key=self.prefix + name, ChecksumMode="ENABLED")
            modified = head["LastModified"].timestamp() if "LastModified" in head else 0.0
            return ObjectInfo(name, head["ContentLength"], head["ETag"], _checksum(head), modified)

    def read(self, info: ObjectInfo, offset: int = 0) -> Iterator[bytes]:
        if offset and offset == info.size:
            return
        with self._explaining(self.url(info.name)):
            span = {"Range": f"bytes={offset}-"} if offset else {}
            answer = self.client.get_object(
                Bucket=self.bucket, Key=self.prefix + info.name, IfMatch=info.version, **span
            )
            yield from answer["Body"].iter_chunks(BLOCK)

    def write(self, name: str, source: Path) -> None:
        with self._explaining(self.url(name)):
            # boto3 uploads large files in parts; AWS compares a checksum of each, others the digest in the signature
            # where the connection is plain HTTP.
            self.client.upload_file(str(source), self.bucket, self.prefix + name)

    def remove(self, name: str) -> None:
        with self._explaining(self.url(name)):
            self.client.delete_object(Bucket=self.bucket, Key=self.prefix + name)

    @contextmanager
    def _explaining(self, url: str) -> Iterator[None]:
        try:
            yield
        except (S3UploadFailedError, boto.ClientError) as error:
            cause = error if isinstance(error, boto.ClientError) else error.__cause__ or error.__context__
            if not isinstance(cause, boto.ClientError):
                raise Unavailable("the upload broke off") from error
            code = cause.response.get("Error", {}).get("Code", "")
            status = cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            raise _explained(url, code, status) from error
        except (boto.ConnectionError, boto.HTTPClientError, boto.IncompleteReadError) as error:
            if problem := certificate_problem(error):
                raise KfrecError(f"{url}: {problem}") from error
            raise Unavailable("could not connect, or the connection broke off") from error
        except boto.BotoCoreError as error:
            raise KfrecError(f"{url}: {error}; check the AWS settings of this account") from error


def _is_aws(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


def _settings_of(uri: str) -> tuple[str, dict[str, str]]:
    """The URI without the query that KFP may append (?region=...&endpoint=...), and the client's settings from it.

    minio:// is S3 at AWS_ENDPOINT_URL, or KFP's own store where that is not set.

    Raises:
        KfrecError: a setting that is not known, or an endpoint that is a metadata service.
    """
    location, _, appended = uri.partition("?")
    query = dict(parse_qsl(appended))
    settings = {}
    for name, value in query.items():
        if name not in _QUERY:
            raise KfrecError(f"{uri}: unknown setting {name}; known are {', '.join(_QUERY)}")
        if _QUERY[name]:
            settings[_QUERY[name]] = value
    if "endpoint_url" in settings and "://" not in settings["endpoint_url"]:
        secure = query.get("disableSSL", "false") != "true"
        settings["endpoint_url"] = f"{'https' if secure else 'http'}://{settings['endpoint_url']}"
    if "endpoint_url" in settings:
        require_no_metadata_behind(uri, urlsplit(settings["endpoint_url"]).hostname or "")
    if location.startswith("minio://") and not os.environ.get("AWS_ENDPOINT_URL"):
        settings.setdefault("endpoint_url", KFP_STORE)
    return location, settings


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

    The ETag of a multipart upload (with a dash) or of an object encrypted with a KMS or customer key is no MD5.
    """
    crc32c = head.get("ChecksumCRC32C", "")
    if crc32c and "-" not in crc32c:
        return Checksum("crc32c", crc32c)
    etag = head["ETag"].strip('"')
    own_encryption = head.get("ServerSideEncryption", "AES256") == "AES256" and "SSECustomerAlgorithm" not in head
    return md5_from_hex(etag) if own_encryption and re.fullmatch(r"[0-9a-f]{32}", etag) else None
