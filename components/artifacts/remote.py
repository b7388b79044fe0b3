"""Artifacts in object storage: the same folders, with the manifest uploaded last and every file checked on arrival."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.artifacts.folder import (
    MANIFEST,
    Artifact,
    FileEntry,
    crc32c_of,
    manifest_head,
    open_artifact,
    parse_manifest,
)
from components.errors import KfrecError
from components.progress import progress
from components.storage import (
    Changed,
    Checksum,
    Damaged,
    Retry,
    Store,
    Unavailable,
    below,
    fetch_file,
    is_uri,
    open_store,
)

ATTEMPTS, THREADS = 6, 8
# Marks a prefix where an artifact is being written; the manifest itself is uploaded last.
PARTIAL = f"{MANIFEST}.partial"


def read_remote(uri: str, name: str) -> bytes | None:
    """The content of a small object below ``uri``, or None if it does not exist.

    Raises:
        KfrecError: access is denied, or the storage does not answer.
    """
    store, retry = open_store(uri), Retry(ATTEMPTS)

    def read() -> bytes | None:
        names = store.names() if "/" not in name else None
        if names is not None and name not in names:
            return None
        info = store.stat(name)
        content = b"".join(store.read(info))
        if info.checksum is not None and not info.checksum.matches_bytes(content):
            raise Unavailable(f"the {info.checksum.kind} of what arrived differs from the service's")
        return content

    try:
        return retry.call(store.url(name), read)
    except Changed:
        return retry.call(store.url(name), read)


def write_remote(uri: str, name: str, text: str) -> None:
    """Writes a small object below ``uri``."""
    store = open_store(uri)
    Retry(ATTEMPTS).call(store.url(name), store.write_text, name, text)


def open_remote(uri: str) -> Artifact:
    """Describes the finished artifact at ``uri``; its ``path`` is for messages only.

    Raises:
        KfrecError: there is no finished artifact, or access is denied.
    """
    text = read_remote(uri, MANIFEST)
    name = below(uri, MANIFEST)
    if text is None:
        raise KfrecError(f"{name}: missing, so the artifact is unfinished; run the step that writes it again")
    return parse_manifest(text.decode(errors="replace"), name, Path(uri))


def fetch_artifact(uri: str, folder: Path, wanted: Callable[[str], bool] = lambda path: True) -> Artifact:
    """Fetches files of the artifact at ``uri`` into ``folder``; complete files are not fetched again.

    Args:
        uri: URI of a complete artifact; a reference is resolved.
        folder: receives the files, without the manifest, since they may be incomplete.

    Returns:
        The artifact, with ``folder`` as its path.

    Raises:
        KfrecError: the artifact is unfinished or damaged, a file is unavailable, or the disk is full.
    """
    artifact = open_remote(uri)
    store, retry = open_store(artifact.data_uri or uri), Retry(ATTEMPTS)
    files = [entry for entry in artifact.files if wanted(entry.path) and not _is_here(folder / entry.path, entry)]
    require_room(folder, sum(entry.size for entry in files))
    with progress(f"fetching {len(files)} files", sum(entry.size for entry in files), "bytes") as bar:
        _in_parallel(lambda entry: _fetch(store, retry, entry, folder / entry.path, bar.advance), files)
    return replace(artifact, path=folder)


def local_copy(location: str, scratch: Path, *names: str) -> Path:
    """The folder of an artifact: ``location`` or, if that is a URI, ``scratch`` with these of its files and folders."""
    if not is_uri(location):
        return Path(location)
    wanted = tuple(f"{name}/" for name in names)
    fetch_artifact(location, scratch, lambda path: f"{path}/".startswith(wanted))
    return scratch


def require_output_prefix(uri: str, step: str, reads: Iterable[str] = ()) -> None:
    """Refuses a prefix in object storage that the step ``step`` may not write; the rule of ``output_folder``.

    Raises:
        KfrecError: the prefix holds objects that the step did not write, or equals, contains or lies inside one that
            is read.
    """
    prefix = f"{uri.rstrip('/')}/"
    for read in (f"{other.rstrip('/')}/" for other in reads):
        if prefix.startswith(read) or read.startswith(prefix):
            raise KfrecError(f"{uri}: overlaps with {read.rstrip('/')}, which is read; name another prefix")
    store, retry = open_store(uri), Retry(ATTEMPTS)
    existing = [*(retry.call(uri, store.names) or ()), *retry.call(uri, store.folders)]
    for manifest in (MANIFEST, PARTIAL):
        if manifest in existing:
            owner = _step_of((read_remote(uri, manifest) or b"").decode(errors="replace"))
            if owner != step:
                raise KfrecError(
                    f"{uri}: its {manifest} is of {f'the step {owner}' if owner else 'something else'}, not of {step}; "
                    "name another prefix for the output"
                )
            return
    if existing:
        raise KfrecError(f"{uri}: holds {existing[0]}, which the {step} step did not write; name a new or empty prefix")


def begin_remote(uri: str, step: str) -> None:
    """Marks the prefix as the step's, before anything else is written there, with the beginning of its manifest."""
    write_remote(uri, PARTIAL, f"{manifest_head(step)}\n")


def _step_of(manifest: str) -> str:
    """The step that a manifest names, finished or not; empty if it is no manifest."""
    head = re.match(r'\{\s*"format": \d+,\s*"step": "(\w+)",', manifest)
    return head[1] if head else ""


def publish_remote(folder: Path, uri: str) -> Artifact:
    """Uploads the finished artifact in ``folder``, the manifest last.

    Objects of an interrupted upload are not sent again if the service reports their CRC32C.

    Raises:
        KfrecError: the folder is unfinished, or the prefix holds something else or cannot be written.
    """
    artifact = open_artifact(folder)
    require_output_prefix(uri, artifact.step)
    store, retry = open_store(uri), Retry(ATTEMPTS)
    broke_off = PARTIAL in (retry.call(uri, store.names) or ())
    begin_remote(uri, artifact.step)
    retry.call(store.url(MANIFEST), store.remove, MANIFEST)  # an earlier artifact ends here
    with progress(
        f"uploading {len(artifact.files)} files", sum(entry.size for entry in artifact.files), "bytes"
    ) as bar:

        def upload(entry: FileEntry) -> None:
            if not (broke_off and _is_there(store, retry, entry)):
                retry.call(store.url(entry.path), store.write, entry.path, folder / entry.path)
            bar.advance(entry.size)

        _in_parallel(upload, artifact.files)
    retry.call(store.url(MANIFEST), store.write, MANIFEST, folder / MANIFEST)
    retry.call(store.url(PARTIAL), store.remove, PARTIAL)
    return artifact


def require_room(folder: Path, size: int) -> None:
    """Fails early if the disk lacks space.

    Raises:
        KfrecError: less than ``size`` bytes are free where ``folder`` is or will be.
    """
    parent = folder
    while not parent.exists():
        parent = parent.parent
    status = os.statvfs(parent)
    free = status.f_bavail * status.f_frsize
    if size > free:
        raise KfrecError(f"{folder}: needs {size / 1e9:.2f} GB and has {free / 1e9:.2f} GB free; give it a larger disk")


def _fetch(store: Store, retry: Retry, entry: FileEntry, target: Path, advance: Callable[[int], None]) -> None:
    """Fetches one file under a temporary name, checks it, and renames it."""
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial.unlink(missing_ok=True)  # a killed container's first process has the same pid
    try:
        info = retry.call(store.url(entry.path), store.stat, entry.path)
        fetch_file(store, retry, info, partial, lambda info: _check(partial, entry), advance)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _check(path: Path, entry: FileEntry) -> None:
    size = path.stat().st_size
    if size != entry.size:
        raise Damaged(f"{size} bytes arrived, {MANIFEST} says {entry.size}")
    if crc32c_of(path) != entry.crc32c:
        raise Damaged(f"what arrived has another checksum than {MANIFEST} says")


def _is_here(path: Path, entry: FileEntry) -> bool:
    return path.is_file() and path.stat().st_size == entry.size and crc32c_of(path) == entry.crc32c


def _is_there(store: Store, retry: Retry, entry: FileEntry) -> bool:
    try:
        info = retry.call(store.url(entry.path), store.stat, entry.path)
    except KfrecError:
        return False
    return info.size == entry.size and info.checksum == Checksum("crc32c", entry.crc32c)


def _in_parallel(job: Callable[[FileEntry], Any], files: Iterable[FileEntry]) -> None:
    """Runs the job for every file; the first failure cancels the pending jobs and is raised."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="artifact") as pool:
        for _ in pool.map(job, files):
            pass
