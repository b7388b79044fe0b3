"""Files that earlier runs fetched: in the cache folder, and in an earlier output."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.artifacts import open_artifact
from components.artifacts.folder import crc32c_of
from components.errors import KfrecError, explain_os_error
from components.private import open_own
from components.storage import ObjectInfo


def origin_of(url: str, info: ObjectInfo) -> dict[str, Any]:
    """Where a file came from and which version of it, JSON-ready."""
    return {"url": url, **asdict(info)}


def is_current(path: Path, origin: Mapping[str, Any] | None, url: str, info: ObjectInfo) -> bool:
    """Whether the finished file ``path`` is the object ``info`` at ``url``.

    The source's checksum decides. Without one, the recorded size and version decide; if the source reports neither, the
    file is fetched again.
    """
    if not path.is_file() or (info.size is not None and path.stat().st_size != info.size):
        return False
    if info.checksum is not None:
        return info.checksum.matches(path)
    return bool(info.version) and origin == origin_of(url, info)


@dataclass(frozen=True)
class CacheShelf:
    """A folder of finished files, of partial ones (``*.partial``), and of their origins (``*.origin.json``).

    Attributes:
        kept: whether the folder outlives the run.
    """

    folder: Path
    kept: bool = True

    @classmethod
    @contextmanager
    def opened(cls, cache_dir: str, uri: str, staging: Path) -> Iterator[CacheShelf]:
        """The shelf of the source ``uri`` below ``cache_dir``; if that is empty, a temporary one for the block.

        Two runs that share a cache and a source take turns.
        """
        if not cache_dir:
            folder = staging / ".fetching"
            folder.mkdir()
            yield cls(folder, kept=False)
            shutil.rmtree(folder)
            return
        readable = re.sub(r"[^A-Za-z0-9]+", "-", uri).strip("-")[-60:]
        folder = Path(cache_dir).expanduser() / f"{readable}-{hashlib.sha256(uri.encode()).hexdigest()[:8]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with os.fdopen(open_own(folder / ".lock"), "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield cls(folder)
        except OSError as error:
            raise explain_os_error(error, folder) or error from error

    def may_move(self, path: Path) -> bool:
        """Whether ``path`` is in this folder and may be moved out of it."""
        return not self.kept and self.folder in path.parents

    def finished(self, name: str) -> Path:
        return self.folder / name

    def partial(self, name: str) -> Path:
        return self.folder / f"{name}.partial"

    def begin(self, path: Path, origin: Mapping[str, Any]) -> None:
        """Records that ``path`` receives the version ``origin``; discards bytes of other versions."""
        resumable = bool(origin["version"] or origin["checksum"])
        if not (resumable and path.is_file() and self.origin(path) == origin):
            path.unlink(missing_ok=True)
            _note(path).unlink(missing_ok=True)
            with _note(path).open("x") as note:  # through no link that another user of a shared cache has made
                note.write(json.dumps(origin, indent=2) + "\n")

    def finish(self, name: str) -> Path:
        """Turns the partial file into the finished one; an older one is replaced."""
        finished, partial = self.finished(name), self.partial(name)
        # A crash in between must leave no finished file rather than one with a wrong origin.
        finished.unlink(missing_ok=True)
        _note(partial).replace(_note(finished))
        partial.replace(finished)
        return finished

    def origin(self, path: Path) -> dict[str, Any] | None:
        """The origin recorded when ``path`` was fetched, or None."""
        try:
            return json.loads(_note(path).read_text())
        except (FileNotFoundError, ValueError):
            return None


@dataclass(frozen=True)
class EarlierOutput:
    """The raw artifact of an earlier run at this run's output."""

    folder: Path
    origins: Mapping[str, Mapping[str, Any]]
    checksums: Mapping[str, str]

    @classmethod
    def at(cls, raw: Path) -> EarlierOutput:
        """The artifact at ``raw``; empty without a complete artifact."""
        try:
            artifact = open_artifact(raw, steps=("download",))
        except KfrecError:
            return cls(raw, {}, {})
        return cls(raw, artifact.origins, {entry.path: entry.crc32c for entry in artifact.files})

    def find(self, name: str, url: str, info: ObjectInfo) -> Path | None:
        """The file ``name`` if it is still what the source has and undamaged."""
        path = self.folder / name
        unchanged = name in self.checksums and is_current(path, self.origins.get(name), url, info)
        return path if unchanged and crc32c_of(path) == self.checksums[name] else None


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.origin.json")
