"""A finished artifact: a folder whose manifest lists every file with its size and CRC32C."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c

from components.errors import KfrecError

MANIFEST = "_manifest.json"
FORMAT = 1
_BLOCK = 1 << 20


@dataclass(frozen=True)
class FileEntry:
    """One file of an artifact: path relative to the folder, size in bytes, CRC32C in base64 (as in GCS)."""

    path: str
    size: int
    crc32c: str


@dataclass(frozen=True)
class Artifact:
    """A folder that a step finished.

    Attributes:
        path: the folder.
        step: the step that wrote it.
        files: every file in it, sorted by path.
        rows: what was counted while writing, such as {"train": 163156, "test": 10246}.
        inputs: input name to the digest of that artifact.
        parameters: the parameters it was made with.
        origins: path of a fetched file to where it came from and which version of it; not part of the digest, so that
            the same content from two places is the same data.
        lineage: step to the parameters it was run with, of the steps before this one.
    """

    path: Path
    step: str
    files: tuple[FileEntry, ...]
    rows: Mapping[str, int]
    inputs: Mapping[str, str]
    parameters: Mapping[str, Any]
    origins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lineage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 over the files' paths, sizes and checksums: equal content, equal digest."""
        lines = "".join(f"{f.path}\0{f.size}\0{f.crc32c}\n" for f in self.files)
        return hashlib.sha256(lines.encode()).hexdigest()

    @property
    def history(self) -> dict[str, Mapping[str, Any]]:
        """Step to parameters, of the steps before this one and this one."""
        return {**self.lineage, self.step: self.parameters}

    def verify(self) -> None:
        """Reads every file and compares checksums.

        Raises:
            KfrecError: a file differs from the manifest.
        """
        for entry in self.files:
            if crc32c_of(self.path / entry.path) != entry.crc32c:
                raise KfrecError(
                    f"{self.path / entry.path}: checksum differs from {MANIFEST}; run the {self.step} step again"
                )

    def to_json(self) -> str:
        body = {
            "format": FORMAT,
            "step": self.step,
            "digest": self.digest,
            "rows": dict(self.rows),
            "inputs": dict(self.inputs),
            "parameters": dict(self.parameters),
            "lineage": {step: dict(parameters) for step, parameters in self.lineage.items()},
            "origins": {path: dict(origin) for path, origin in self.origins.items()},
            "files": [asdict(entry) for entry in self.files],
        }
        return json.dumps(body, indent=2) + "\n"


def crc32c_of(path: Path) -> str:
    """CRC32C of a file in base64, the form Google Cloud Storage uses."""
    checksum = google_crc32c.Checksum()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum.update(block)
    return base64.b64encode(checksum.digest()).decode()


def files_below(folder: Path) -> Iterator[Path]:
    """The files of an artifact folder, sorted, without its manifest."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / MANIFEST:
            yield path


def open_artifact(folder: Path | str) -> Artifact:
    """Reads the manifest of a finished artifact and checks that its files are there.

    Raises:
        KfrecError: no such folder, no valid manifest, or a file is missing or of another size.
    """
    folder = Path(folder)
    manifest = folder / MANIFEST
    if not folder.is_dir():
        raise KfrecError(f"{folder}: no such folder; run the step that writes it first")
    try:
        text = manifest.read_text()
    except FileNotFoundError:
        raise KfrecError(
            f"{manifest}: missing, so the folder is unfinished; run the step again, or, if you brought these "
            f"files yourself, accept them with: python -m components.artifacts {folder}"
        ) from None
    artifact = parse_manifest(text, str(manifest), folder)
    for entry in artifact.files:
        path = folder / entry.path
        if not path.is_file():
            raise KfrecError(f"{path}: listed in {MANIFEST} but missing; run the {artifact.step} step again")
        if path.stat().st_size != entry.size:
            raise KfrecError(
                f"{path}: {path.stat().st_size} bytes, {MANIFEST} says {entry.size}; run the {artifact.step} step again"
            )
    return artifact


def parse_manifest(text: str, name: str, folder: Path) -> Artifact:
    """The artifact that a manifest describes.

    Args:
        text: the manifest.
        name: of the manifest, for messages.
        folder: where the artifact's files are, or will be.

    Raises:
        KfrecError: it is not a manifest, or was changed.
    """
    try:
        body = json.loads(text)
        files = tuple(FileEntry(**entry) for entry in body["files"])
        artifact = Artifact(
            folder,
            body["step"],
            files,
            body["rows"],
            body["inputs"],
            body["parameters"],
            body.get("origins", {}),
            body.get("lineage", {}),
        )
        recorded = body["digest"]
    except (ValueError, KeyError, TypeError) as error:
        raise KfrecError(f"{name}: not a manifest ({error}); run the step that writes it again") from None
    if recorded != artifact.digest:
        raise KfrecError(f"{name}: its digest does not match its list of files; run the step again")
    return artifact
