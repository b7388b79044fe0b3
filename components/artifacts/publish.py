"""Writing an artifact: under a temporary name, then visible in one move with its manifest written last."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from components.artifacts.folder import MANIFEST, Artifact, FileEntry, crc32c_of, files_below
from components.errors import KfrecError, explain_os_error


@dataclass
class Staging:
    """The folder a step writes into before it is published.

    Attributes:
        path: write files here.
        rows: count here what the step produced, such as ``staging.rows["train"] = 163156``.
        origins: note here where a fetched file came from, by its path in the folder.
        artifact: set once published.
    """

    path: Path
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
) -> Iterator[Staging]:
    """Gives a staging folder and, when the block ends well, turns it into the artifact ``output`` in one move.

    When the block raises, the staging folder is removed and an earlier artifact under ``output`` stays as it was.

    Args:
        output: the artifact's folder; an earlier one is replaced.
        step: name of the step, recorded in the manifest.
        inputs: input name to the artifact it was.
        parameters: JSON-ready parameters, recorded in the manifest.

    Raises:
        KfrecError: the folder cannot be written (disk full, read-only, no permission).
    """
    output = Path(output).absolute()
    staging = Staging(output.with_name(f".{output.name}.partial-{os.getpid()}"))
    try:
        shutil.rmtree(staging.path, ignore_errors=True)
        staging.path.mkdir(parents=True)
        yield staging
        staging.artifact = _write_manifest(staging, step, inputs or {}, parameters or {})
        _move_into_place(staging.path, output)
        staging.artifact = _at(staging.artifact, output)
    except OSError as error:
        explained = explain_os_error(error, output)
        raise explained or error from error
    finally:
        shutil.rmtree(staging.path, ignore_errors=True)


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


def _write_manifest(
    staging: Staging, step: str, inputs: Mapping[str, Artifact], parameters: Mapping[str, Any]
) -> Artifact:
    entries = tuple(
        FileEntry(path.relative_to(staging.path).as_posix(), path.stat().st_size, crc32c_of(path))
        for path in files_below(staging.path)
    )
    digests = {name: artifact.digest for name, artifact in inputs.items()}
    lineage = {earlier: given for artifact in inputs.values() for earlier, given in artifact.history.items()}
    artifact = Artifact(staging.path, step, entries, staging.rows, digests, parameters, staging.origins, lineage)
    written = staging.path / f"{MANIFEST}.partial"
    written.write_text(artifact.to_json())
    written.replace(staging.path / MANIFEST)
    return artifact


def _move_into_place(staged: Path, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    if not output.exists():
        staged.replace(output)
        return
    # A folder cannot be renamed over one that holds files: the old one steps aside and returns if the move fails.
    aside = output.with_name(f".{output.name}.replaced-{os.getpid()}")
    output.replace(aside)
    try:
        staged.replace(output)
    except OSError:
        aside.replace(output)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _at(artifact: Artifact, path: Path) -> Artifact:
    return replace(artifact, path=path)
