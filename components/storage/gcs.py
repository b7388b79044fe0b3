"""Google Cloud Storage, or the emulator that STORAGE_EMULATOR_HOST names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import requests
import urllib3
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.cloud import storage
from google.cloud.storage.retry import DEFAULT_RETRY

from components.errors import KfrecError, certificate_problem
from components.storage.opening import bucket_and_prefix
from components.storage.store import Changed, Checksum, ObjectInfo, Store, Unavailable

_BLOCK = 8 << 20
_UPLOAD_BLOCK = 64 << 20
# For one upload; the client retries its blocks, since only the client can resume an upload.
_PATIENCE = DEFAULT_RETRY.with_timeout(30.0)


class GcsStore(Store):
    """Reads in blocks of 8 MiB, each pinned to the described generation, and never decompresses.

    Uses the application default credentials; without any, reads anonymously (public buckets).
    """

    def __init__(self, uri: str, timeout: float = 60.0) -> None:
        super().__init__(uri)
        bucket, self.prefix = bucket_and_prefix(uri)
        self.timeout = timeout
        try:
            client = storage.Client()
        except auth.DefaultCredentialsError:
            client = storage.Client.create_anonymous_client()
        except OSError:
            # Credentials without a project: it is needed for creating buckets, not for reading objects.
            client = storage.Client(project="none")
        self.client = client
        self.bucket = client.bucket(bucket)

    def names(self) -> list[str]:
        with self._explaining(self.uri):
            return sorted(blob.name[len(self.prefix) :] for blob in self._listed() if not blob.name.endswith("/"))

    def folders(self) -> list[str]:
        with self._explaining(self.uri):
            listing = self._listed()
            for _ in listing:  # the prefixes are known once all pages were read
                pass
            return sorted(prefix[len(self.prefix) :].strip("/") for prefix in listing.prefixes)

    def _listed(self) -> Any:
        options = dict(prefix=self.prefix, delimiter="/")
        return self.client.list_blobs(self.bucket, **options, timeout=self.timeout, retry=None)

    def stat(self, name: str) -> ObjectInfo:
        with self._explaining(self.url(name)):
            blob = self.bucket.blob(self.prefix + name)
            blob.reload(timeout=self.timeout, retry=None)
            checksum = Checksum("crc32c", blob.crc32c) if blob.crc32c else None
            modified = blob.updated.timestamp() if blob.updated else 0.0
            return ObjectInfo(name, int(blob.size), str(blob.generation), checksum, modified)

    def read(self, info: ObjectInfo, offset: int = 0) -> Iterator[bytes]:
        blob = self.bucket.blob(self.prefix + info.name)
        size = info.size or 0
        while offset < size:
            with self._explaining(self.url(info.name)):
                block = blob.download_as_bytes(
                    start=offset,
                    end=min(offset + _BLOCK, size) - 1,
                    raw_download=True,
                    if_generation_match=int(info.version),
                    timeout=self.timeout,
                    checksum=None,
                    retry=None,
                )
            if not block:
                raise Unavailable("the service sent nothing")
            yield block
            offset += len(block)

    def write(self, name: str, source: Path) -> None:
        with self._explaining(self.url(name)):
            blob = self.bucket.blob(self.prefix + name, chunk_size=_UPLOAD_BLOCK)
            # The service verifies the checksum before the object appears.
            blob.upload_from_filename(str(source), checksum="crc32c", timeout=self.timeout, retry=_PATIENCE)

    def remove(self, name: str) -> None:
        with self._explaining(self.url(name)), suppress(api.NotFound):
            self.bucket.blob(self.prefix + name).delete(timeout=self.timeout, retry=None)

    @contextmanager
    def _explaining(self, url: str) -> Iterator[None]:
        try:
            yield
        except api.NotFound:
            raise KfrecError(f"{url}: not there; check the source and the names of the files") from None
        except (api.Unauthorized, api.Forbidden, auth.RefreshError) as error:
            raise KfrecError(
                f"{url}: access denied ({type(error).__name__}); log in with gcloud auth application-default login, "
                "or give this account the role storage.objectViewer (storage.objectUser to write)"
            ) from None
        except (api.PreconditionFailed, api.RequestRangeNotSatisfiable):
            raise Changed(f"{url} was replaced") from None
        except (api.ServerError, api.TooManyRequests, api.RetryError) as error:
            raise Unavailable(f"the service answered {getattr(error, 'code', None) or 'too late'}") from error
        except api.GoogleAPICallError as error:
            raise KfrecError(f"{url}: the service answered {error.code} {error.message}; check the source") from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, auth.TransportError) as error:
            if problem := certificate_problem(error):
                raise KfrecError(f"{url}: {problem}") from error
            raise Unavailable("could not connect, or the connection broke off") from error
