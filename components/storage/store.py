"""The interface of every kind of storage, its errors, and the checksums that services report.

There are three kinds of errors: ``Unavailable`` is worth a retry, ``Changed`` requires a fresh ``stat`` and a
start from the first byte, and the user must fix a KfrecError (no such object, no permission).
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c

from components.errors import KfrecError

BLOCK = 1 << 20


@dataclass(frozen=True)
class Checksum:
    """A service's checksum of an object's content.

    Attributes:
        kind: "md5" or "crc32c".
        value: the big-endian digest in base64.
    """

    kind: str
    value: str

    def matches(self, path: Path) -> bool:
        """Reads the file at ``path`` and says whether its content has this checksum."""
        with path.open("rb") as file:
            return self._is_of(iter(lambda: file.read(BLOCK), b""))

    def matches_bytes(self, content: bytes) -> bool:
        """Whether ``content`` has this checksum."""
        return self._is_of([content])

    def _is_of(self, blocks: Iterable[bytes]) -> bool:
        digest: Any = hashlib.md5(usedforsecurity=False) if self.kind == "md5" else google_crc32c.Checksum()
        for block in blocks:
            digest.update(block)
        return base64.b64encode(digest.digest()).decode() == self.value


def md5_from_hex(text: str) -> Checksum:
    """An MD5 written in hexadecimal, as in the ETag of an S3 object."""
    return Checksum("md5", base64.b64encode(bytes.fromhex(text)).decode())


class Unavailable(Exception):
    """The service did not answer, closed the connection or asked for a later retry.

    Attributes:
        wait: seconds the service asked to wait, or 0 if it did not.
    """

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class Changed(Exception):
    """The object is no longer the requested version."""


@dataclass(frozen=True)
class ObjectInfo:
    """One object as its service describes it.

    Attributes:
        size: length in bytes, or None where the service does not say.
        version: differs when the content does (ETag, generation, modification time); empty where unknown.
        checksum: checksum of the content, where the service states one.
        modified: seconds since 1970, or 0 where the service does not say.
    """

    name: str
    size: int | None
    version: str = ""
    checksum: Checksum | None = None
    modified: float = 0.0


class Store(ABC):
    """The objects below one URI, as a folder holds files and folders.

    Attributes:
        uri: the user's URI, for messages.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @abstractmethod
    def names(self) -> list[str] | None:
        """The names of all objects, sorted, or None where this kind of storage cannot be listed.

        Raises:
            KfrecError: there is no such place, or it may not be read.
            Unavailable: worth another try.
        """

    @abstractmethod
    def stat(self, name: str) -> ObjectInfo:
        """Describes the object ``name`` as it is now.

        Raises:
            KfrecError: there is no such object, or access is denied.
            Unavailable: worth another try.
        """

    @abstractmethod
    def read(self, info: ObjectInfo, offset: int = 0) -> Iterator[bytes]:
        """Yields the bytes of exactly the version ``info`` from ``offset`` to the end, undecoded.

        Raises:
            Changed: the object is no longer that version.
            KfrecError: there is no such object, or access is denied.
            Unavailable: worth another try, from the byte where this one ended.
        """

    def folders(self) -> list[str]:
        """The names of the folders directly below, sorted.

        Raises:
            KfrecError: there is no such place, it may not be read, or this kind of storage cannot be listed.
            Unavailable: worth another try.
        """
        raise KfrecError(f"{self.uri}: cannot be listed; use a folder, gs://, s3:// or minio://")

    def write(self, name: str, source: Path) -> None:
        """Makes ``name`` (which may hold slashes) the content of the file ``source``, all of it or nothing.

        Raises:
            KfrecError: it may not be written, or this kind of storage takes nothing.
            Unavailable: worth another try.
        """
        raise KfrecError(f"{self.uri}: cannot be written to; use a folder, gs://, s3:// or minio://")

    def write_text(self, name: str, text: str) -> None:
        """Makes ``name`` a small object with this text; as ``write``."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            self.write(name, Path(file.name))

    def remove(self, name: str) -> None:
        """Removes an object; one that is not there is fine.

        Raises:
            KfrecError: it may not be removed, or this kind of storage takes nothing.
            Unavailable: worth another try.
        """
        raise KfrecError(f"{self.uri}: cannot be changed; use a folder, gs://, s3:// or minio://")

    def url(self, name: str) -> str:
        """Where the object ``name`` is, for messages and manifests."""
        return f"{self.uri.rstrip('/')}/{name}"

    def path(self, name: str) -> Path | None:
        """The object as a file on this machine, or None where it is elsewhere."""
        return None
