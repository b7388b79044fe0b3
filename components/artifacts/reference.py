"""Artifacts whose data stay in object storage: KFP copies only a manifest with their location.

KFP's launcher downloads every object whose key begins with an artifact's URI before a step begins, and uploads an
output's folder after its end. So the data are next to the artifacts, not below one, and KFP copies only the manifest
and files of a few kilobytes.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from components.artifacts.folder import MANIFEST, Artifact, open_artifact
from components.artifacts.remote import fetch_artifact, open_remote, publish_remote
from components.errors import KfrecError

# Next to the artifacts of a task; no artifact's name begins with it.
DATA = "_data"
# Files up to this size are stored with the manifest of a reference, as long as they fit the total; in bytes.
SMALL, SMALL_IN_TOTAL = 64 << 10, 512 << 10


def data_uri(uri: str) -> str:
    """The location of the data of the artifact that KFP keeps at ``uri``."""
    location, mark, settings = uri.partition("?")
    parent, _, name = location.rstrip("/").rpartition("/")
    return f"{parent}/{DATA}/{name}{mark}{settings}"


def open_input(folder: Path | str, *, steps: Collection[str], reads: Collection[str] | None = None) -> Artifact:
    """Opens an input artifact of a step and stages the files it reads on this machine.

    Args:
        folder: artifact folder. For a reference, the files are fetched into a temporary folder, the path of the result.
        reads: names of files, and of folders to read completely; None reads everything.

    Raises:
        KfrecError: see ``components.artifacts.folder.open_artifact``; or the data are not where the reference says.
    """
    artifact = open_artifact(folder, steps=steps)
    if not artifact.data_uri:
        return artifact
    stage = _stage()
    wanted = tuple(f"{name}/" for name in reads or ())
    fetched = fetch_artifact(artifact.data_uri, stage, lambda path: reads is None or f"{path}/".startswith(wanted))
    if fetched.digest != artifact.digest:
        raise KfrecError(f"{artifact.data_uri}: holds other data than {folder} says; run the pipeline again")
    (stage / MANIFEST).write_text(artifact.to_json())
    return replace(artifact, path=stage)


def _stage() -> Path:
    """A temporary folder, removed at the end of the process."""
    folder = Path(tempfile.mkdtemp(prefix="kfrec-input-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def publishing_reference(uri: str, folder: Path) -> Iterator[Path]:
    """Yields the folder for an output that KFP keeps at ``uri``; publishes its content if the block succeeds.

    A step may have published the data at ``data_uri(uri)`` itself and left the folder empty.

    Args:
        folder: receives the manifest and the small files.

    Raises:
        KfrecError: the step published nothing, or the data cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="kfrec-output-") as stage:
        staged, location = Path(stage) / "artifact", data_uri(uri)
        yield staged
        published = publish_remote(staged, location) if staged.exists() else open_remote(location)
        folder.mkdir(parents=True, exist_ok=True)
        total, small = 0, []
        for entry in published.files:
            if entry.size <= SMALL and total + entry.size <= SMALL_IN_TOTAL:
                total += entry.size
                small.append(entry.path)
        if staged.exists():
            for path in small:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(staged / path, folder / path)
        else:
            fetch_artifact(location, folder, lambda path: path in small)
        (folder / MANIFEST).write_text(replace(published, data_uri=location).to_json())
