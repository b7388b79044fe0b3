"""Fetches the files of a store into a folder, each complete or not at all."""

from __future__ import annotations

import fcntl
import gzip
import shutil
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from components.download.shelf import CacheShelf, EarlierOutput, is_current, origin_of
from components.errors import KfrecError
from components.progress import progress
from components.storage import Bounded, Damaged, ObjectInfo, Retry, Store, check_arrived, fetch_file
from components.storage.packed import is_packed, packed_rows
from components.workflows.partitions import name_within

_BLOCK = 1 << 20
_MAGIC = b"\x1f\x8b"
_FICLONE = 0x40049409  # linux/fs.h; the fcntl module has no name for it.


def count_lines(path: Path, label: str, advance: Callable[[int], None] = lambda count: None) -> int:
    """Reads a file to its end, decompressing a .gz or .zip, and returns how many lines, or rows of parquet, it has.

    Args:
        label: its name for messages.
        advance: called with each number of bytes that were read; all of them, the size of the file.

    Raises:
        KfrecError: it is not gzip data, damaged, or ends too early.
    """
    lines, last, size, consumed = 0, b"\n", path.stat().st_size, 0
    if is_packed(label):
        advance(size)
        return packed_rows(path, label)
    with path.open("rb") as file:
        try:
            stream = gzip.GzipFile(fileobj=file) if label.lower().endswith(".gz") else file
            while block := stream.read(_BLOCK):
                lines, last = lines + block.count(b"\n"), block[-1:]
                advance(file.tell() - consumed)
                consumed = file.tell()
            if stream is not file and not size:
                raise EOFError
        except EOFError:
            raise KfrecError(
                f"{label}: the gzip file is truncated after {size} bytes; get a complete copy of it "
                f"(gzip -t {Path(label).name} finds out) and run again"
            ) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            file.seek(0)
            what = "the gzip file is damaged" if file.read(2) == _MAGIC else "not a gzip file, or damaged"
            raise KfrecError(f"{label}: {what} ({error}); get a good copy of it and run again") from error
    return lines + (last != b"\n")


@dataclass(frozen=True)
class Fetcher:
    """Fetches from one source.

    Attributes:
        shelf: where files are received; may hold complete or partial files of earlier runs.
        limit: largest total size of the files to fetch, in bytes.
    """

    store: Store
    retry: Retry
    shelf: CacheShelf
    earlier: EarlierOutput
    limit: int

    def fetch_all(self, names: Sequence[str], target: Path) -> dict[str, dict[str, Any]]:
        """Puts every file into the folder ``target`` and returns the origin of each by its name there.

        Raises:
            KfrecError: a file is missing, damaged or truncated at the source, or the source does not answer.
        """
        infos = [self.retry.call(self.store.url(name), self.store.stat, name) for name in names]
        existing = [self._existing_file(info) for info in infos]
        missing = [info for info, path in zip(infos, existing, strict=True) if path is None]
        if missing:
            sizes = [info.size for info in missing]
            total = None if None in sizes else sum(size or 0 for size in sizes)
            received = Bounded(self.store.uri, self.limit)
            received.require(total or 0)
            with progress(f"downloading {len(missing)} files", total, "bytes") as bar:

                def advance(count: int) -> None:
                    received.advance(count)
                    bar.advance(count)

                fetched = {info.name: self._fetch(info, advance) for info in missing}
        origins = {}
        for info, path in zip(infos, existing, strict=True):
            info, path = (info, path) if path is not None else fetched[info.name]
            local = name_within(PurePosixPath(info.name))
            (target / local).parent.mkdir(parents=True, exist_ok=True)
            if self.shelf.may_move(path):
                path.replace(target / local)
            else:
                copy_file(path, target / local)
            origins[local] = origin_of(self.store.url(info.name), info)
        return origins

    def _existing_file(self, info: ObjectInfo) -> Path | None:
        """The complete file if it need not be fetched: from the source's folder, the cache or the earlier output."""
        local, url = name_within(PurePosixPath(info.name)), self.store.url(info.name)
        if path := self.store.path(info.name):
            return path
        cached = self.shelf.finished(local)
        if is_current(cached, self.shelf.origin(cached), url, info):
            return cached
        return self.earlier.find(local, url, info)

    def _fetch(self, info: ObjectInfo, advance: Callable[[int], None]) -> tuple[ObjectInfo, Path]:
        """Fetches one file; resumes a partial file of this version from an earlier run."""
        url, local = self.store.url(info.name), name_within(PurePosixPath(info.name))
        partial = self.shelf.partial(local)
        partial.parent.mkdir(parents=True, exist_ok=True)
        info = fetch_file(
            self.store,
            self.retry,
            info,
            partial,
            check=lambda info: _check(partial, info, url),
            advance=advance,
            begin=lambda info: self.shelf.begin(partial, origin_of(url, info)),
        )
        return info, self.shelf.finish(local)


def _check(partial: Path, info: ObjectInfo, url: str) -> None:
    check_arrived(partial, info)
    if info.size is not None:
        return
    # The source did not report the length: only the file's end shows whether it is complete.
    try:
        count_lines(partial, url)
    except KfrecError as error:
        raise Damaged(str(error)) from error


def copy_file(source: Path, target: Path) -> None:
    """Copies ``source`` to ``target``, as a reflink if the file system supports it (XFS, Btrfs, and others).

    A hard link would be cheaper but wrong: later writes to one name would appear under the other.

    Raises:
        OSError: the source cannot be read or the target not written.
    """
    with suppress(OSError), source.open("rb") as original, target.open("wb") as copy:
        fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
        return
    shutil.copyfile(source, target)
