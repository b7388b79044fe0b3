"""Checksums reported by the storage services."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c

_BLOCK = 1 << 20


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
            return self._is_of(iter(lambda: file.read(_BLOCK), b""))

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
