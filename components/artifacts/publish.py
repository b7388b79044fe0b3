"""Writes an artifact: into a hidden folder next to it, then published by a rename, with the manifest written last.

A step may write to a new or empty folder, or to an earlier artifact of the same step; nothing else is replaced.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from components.artifacts.folder import (
    MANIFEST,
    Artifact,
    FileEntry,
    crc32c_of,
    files_below,
    manifest_head,
    parse_manifest,
)
from components.errors import KfrecError, explain_os_error


def output_folder(output: Path | str, step: str, reads: Iterable[Path | str] = ()) -> Path:
    """Resolves ``output``, following links, if the step ``step`` may replace its content.

    Raises:
        KfrecError: it is empty text, a file, the working folder or one above it; it holds something that the step did
            not write; it equals, contains or lies inside a folder that is read, or inside any artifact.
    """
    if not str(output).strip() or (isinstance(output, Path) and output == Path()):
        raise KfrecError(
            f"{step}: the output folder is '{output if isinstance(output, str) else '.'}', the working directory; "
            "name a folder of its own"
        )
    try:
        resolved = Path(output).resolve()
        if resolved.is_symlink():  # a loop, from Python 3.13 on
            raise RuntimeError
        _require_apart(resolved, [Path(folder).expanduser().resolve() for folder in reads])
        _require_replaceable(resolved, step)
    except OSError as error:
        raise explain_os_error(error, output) or error from error
    except RuntimeError:  # a loop of symbolic links, before Python 3.13 as resolve() finds it
        raise KfrecError(f"{output}: its symbolic links form a loop; choose another folder") from None
    return resolved


def _require_apart(output: Path, reads: Sequence[Path]) -> None:
    here = Path.cwd()
    if output == here or output in here.parents:
        raise KfrecError(f"{output}: is or contains the working directory; name another folder for the output")
    for folder in reads:
        if output == folder:
            raise KfrecError(f"{output}: is an input of this step; name another folder for the output")
        if output in folder.parents:
            raise KfrecError(f"{output}: contains {folder}, an input of this step; name another folder for the output")
        if folder in output.parents:
            raise KfrecError(f"{output}: lies inside {folder}, an input of this step; name a folder outside of it")
    for above in output.parents:
        if (above / MANIFEST).is_file():
            raise KfrecError(f"{output}: lies inside the artifact {above}; name a folder outside of it")


def _require_replaceable(folder: Path, step: str) -> None:
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise KfrecError(f"{folder}: is a file; name a folder for the output")
    first = next(iter(sorted(path.name for path in folder.iterdir())), None)
    if first is None:
        return
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise KfrecError(f"{folder}: holds {first}, which the {step} step did not write; name a new or empty folder")
    text = manifest.read_text(errors="replace")
    head = manifest_head(step)
    if head.startswith(text):
        return  # truncated by a crash of the machine
    try:
        artifact = parse_manifest(text, str(manifest), folder)
    except KfrecError:
        if text.startswith(head):
            return
        raise KfrecError(
            f"{manifest}: not a manifest of the {step} step, so the step will not replace its folder; "
            "name another folder"
        ) from None
    if artifact.step != step:
        raise KfrecError(
            f"{folder}: holds an artifact of the step {artifact.step}, not of {step}; name another "
            "folder for the output"
        )
    listed = {entry.path for entry in artifact.files}
    for path in files_below(folder):
        if path.relative_to(folder).as_posix() not in listed:
            raise KfrecError(f"{path}: not listed in {MANIFEST}, so the {step} step will not delete it; move it away")


_WRITER, _STAGED, _SCRATCH, _REPLACED = "writer", "artifact", "scratch", "replaced"
# File systems that cannot lock a folder; concurrent writers of one output are not detected there.
_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@dataclass
class Staging:
    """The folder a step writes into before it is published.

    Attributes:
        scratch: an empty folder for temporary files, on the same disk; removed with the step.
        rows: count here what the step produced, such as ``staging.rows["train"] = 163156``.
        origins: note here where a fetched file came from, by its path in the folder.
        artifact: set once published.
    """

    path: Path
    scratch: Path = Path()
    rows: dict[str, int] = field(default_factory=dict)
    origins: dict[str, dict[str, Any]] = field(default_factory=dict)
    artifact: Artifact | None = None


@contextmanager
def publishing(
    output: Path | str,
    *,
    step: str,
    inputs: Mapping[str, Artifact] | None = None,
    parameters: Mapping[str, Any] | None = None,
    reads: Iterable[Path | str] = (),
) -> Iterator[Staging]:
    """Yields a staging folder and, if the block succeeds, renames it to the artifact ``output``.

    When the block raises, the staging folder is removed and an earlier artifact under ``output`` is unchanged. One
    process at a time writes an output. The next process cleans up after a killed one.

    Args:
        output: the artifact's folder; an earlier artifact of the same step is replaced, nothing else is.
        reads: further folders that the step reads, in addition to the inputs.

    Raises:
        KfrecError: the folder is not the step's to replace (see ``output_folder``), another process is writing
            it, or it cannot be written (disk full, read-only, no permission).
    """
    inputs = inputs or {}
    reads = [*reads, *(artifact.path for artifact in inputs.values())]
    folder = output_folder(output, step, reads)
    try:
        with _working_folder(folder) as work:
            staging = Staging(work / _STAGED, work / _SCRATCH)
            staging.path.mkdir()
            staging.scratch.mkdir()
            yield staging
            staging.artifact = _write_manifest(staging, step, inputs, parameters or {})
            output_folder(folder, step, reads)  # the folder may have changed while the step ran
            _move_into_place(staging.path, folder, work / _REPLACED)
            staging.artifact = replace(staging.artifact, path=folder)
    except OSError as error:
        explained = explain_os_error(error, folder)
        raise explained or error from error


def adopt(folder: Path | str) -> Artifact:
    """Accepts a folder that kfrec did not write (bring-your-own data) by writing its manifest.

    Raises:
        KfrecError: the folder is missing, empty or not writable.
    """
    folder = Path(folder)
    if not folder.is_dir() or not any(files_below(folder)):
        raise KfrecError(f"{folder}: no files here to accept; give the folder that holds your data")
    try:
        return _write_manifest(Staging(folder), "adopted", {}, {})
    except OSError as error:
        raise explain_os_error(error, folder) or error from error


def remove_abandoned(folders: Iterable[Path]) -> list[Path]:
    """Removes those of the working folders (``.<output>.partial``) whose processes are dead, and returns them."""
    removed = []
    for work in sorted(folders):
        name = work.name.removeprefix(".").removesuffix(".partial")
        if not (work / _WRITER).is_file():
            continue
        try:
            with _working_folder(work.with_name(name)):
                removed.append(work)
        except (KfrecError, OSError):
            continue  # it is being written, or may not be removed
    return removed


@contextmanager
def _working_folder(folder: Path) -> Iterator[Path]:
    """The hidden folder next to ``folder`` for its single writer; removed at the end.

    Its lock ends with the process. Files that a dead process left in it are removed; an earlier artifact that was being
    replaced is restored.

    Raises:
        KfrecError: another process holds the lock, or the folder holds something else.
        OSError: it cannot be created.
    """
    work = folder.with_name(f".{folder.name}.partial")
    lock = _locked(work, folder)
    try:
        if (work / _REPLACED).is_dir() and not folder.exists():
            (work / _REPLACED).rename(folder)
        if any(work.iterdir()) and not (work / _WRITER).is_file():
            raise KfrecError(f"{work}: holds files that no step wrote; move them away")
        (work / _WRITER).write_text(f"{os.getpid()}\n")
        for name in (_STAGED, _SCRATCH, _REPLACED):
            if (work / name).exists():
                shutil.rmtree(work / name)
        try:
            yield work
        finally:
            _remove(work)
    finally:
        os.close(lock)


def _remove(work: Path) -> None:
    """Removes a working folder, its mark last: what cannot be removed now is known as a writer's later."""
    for path in work.glob("*"):
        if path.name != _WRITER:
            shutil.rmtree(path, ignore_errors=True)
    if [path.name for path in work.glob("*")] == [_WRITER]:
        shutil.rmtree(work, ignore_errors=True)


def _locked(work: Path, folder: Path) -> int:
    """A descriptor that locks the folder ``work``, which is created if missing."""
    while True:
        work.mkdir(parents=True, exist_ok=True)
        lock = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise KfrecError(f"{folder}: is being written by {_writer(work)}; wait for it or stop it") from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            # The writer before may have removed the folder between the opening and the lock.
            if work.is_dir() and os.path.samestat(os.fstat(lock), work.stat()):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _writer(work: Path) -> str:
    try:
        return f"process {int((work / _WRITER).read_text())}"
    except (OSError, ValueError):
        return "another process"


def _write_manifest(
    staging: Staging, step: str, inputs: Mapping[str, Artifact], parameters: Mapping[str, Any]
) -> Artifact:
    entries = tuple(
        FileEntry(path.relative_to(staging.path).as_posix(), path.stat().st_size, crc32c_of(path))
        for path in files_below(staging.path)
    )
    digests = {name: artifact.digest for name, artifact in inputs.items()}
    lineage = {
        earlier: earlier_parameters
        for artifact in inputs.values()
        for earlier, earlier_parameters in artifact.history.items()
    }
    artifact = Artifact(staging.path, step, entries, staging.rows, digests, parameters, staging.origins, lineage)
    written = staging.path / f"{MANIFEST}.partial"
    written.write_text(artifact.to_json())
    written.replace(staging.path / MANIFEST)
    return artifact


def _move_into_place(staged: Path, folder: Path, aside: Path) -> None:
    if not folder.exists():
        staged.rename(folder)
        return
    # A folder cannot be renamed over a non-empty one: the old one is moved aside, and restored if the rename fails.
    folder.rename(aside)
    try:
        staged.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
