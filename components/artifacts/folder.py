"""A finished artifact: a folder whose manifest lists every file with its size and CRC32C."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import google_crc32c

from components.errors import KfrecError
from components.private import require_followed

MANIFEST = "_manifest.json"
FORMAT = 1
# The step in the manifest of an adopted folder; any step takes it as input.
ADOPTED = "adopted"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class FileEntry:
    """One file of an artifact: path relative to the folder, size in bytes, CRC32C in base64 (as in GCS)."""

    path: str
    size: int
    crc32c: str


@dataclass(frozen=True)
class Artifact:
    """A complete output folder of a step. Only the files that the manifest lists belong to it.

    Attributes:
        rows: counts by name, such as {"train": 163156, "test": 10246}.
        inputs: input name to the digest of that artifact.
        origins: path of a fetched file to its source and version; not part of the digest, so that equal content from
            two sources is equal data.
        lineage: step to its parameters, for the steps before this one.
        data_uri: location of the files if they are in object storage, not next to the manifest; the artifact is then a
            reference.
    """

    path: Path
    step: str
    files: tuple[FileEntry, ...]
    rows: Mapping[str, int]
    inputs: Mapping[str, str]
    parameters: Mapping[str, Any]
    origins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lineage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    data_uri: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 over the files' paths, sizes and checksums: equal content, equal digest."""
        lines = "".join(f"{f.path}\0{f.size}\0{f.crc32c}\n" for f in self.files)
        return hashlib.sha256(lines.encode()).hexdigest()

    def paths(self, pattern: str) -> list[Path]:
        """Full paths of the listed files that match, sorted; reports unlisted files that would match.

        Args:
            pattern: glob on the path within the folder; ``*`` stops at a slash.
        """
        listed = self._listed()
        for path in sorted(self.path.glob(pattern)):
            if path.is_file() and path.relative_to(self.path).as_posix() not in {MANIFEST, *listed}:
                print(f"{path}: not listed in {MANIFEST}, so it is not read; {self._remedy()}", flush=True)
        return [self.path / path for path in sorted(listed) if _matches(path, pattern)]

    def file(self, path: str) -> Path:
        """The full path of a listed file; a missing file is left to its reader to report.

        Raises:
            KfrecError: it exists and the manifest does not list it.
        """
        if path not in self._listed() and (self.path / path).exists():
            raise KfrecError(f"{self.path / path}: not listed in {MANIFEST}; {self._remedy()}")
        return self.path / path

    def _listed(self) -> set[str]:
        return {entry.path for entry in self.files}

    def _remedy(self) -> str:
        if self.step == ADOPTED:
            return f"remove it, or accept it with: python -m components.artifacts {self.path}"
        return f"remove it, or run the {self.step} step again"

    def require_step(self, steps: Collection[str]) -> None:
        """Rejects the output of other steps; adopted data may replace any.

        Raises:
            KfrecError: another step wrote it.
        """
        if self.step not in (*steps, ADOPTED):
            raise KfrecError(
                f"{self.path}: was written by step {self.step}, but an output of {' or '.join(steps)} is needed here; "
                "give that folder"
            )

    @property
    def history(self) -> dict[str, Mapping[str, Any]]:
        """Step to parameters, for the earlier steps and this one."""
        return {**self.lineage, self.step: self.parameters}

    def verify(self, below: Collection[str] | None = None) -> None:
        """Reads files and compares checksums.

        Args:
            below: names of files, and of folders to read completely; None reads everything.

        Raises:
            KfrecError: a file differs from the manifest.
        """
        for entry in self.files:
            if below is not None and entry.path.partition("/")[0] not in below:
                continue
            if crc32c_of(self.path / entry.path) != entry.crc32c:
                raise KfrecError(
                    f"{self.path / entry.path}: checksum differs from {MANIFEST}; run the {self.step} step again"
                )

    def at_source(self, text: str) -> str:
        """A text in which the fetched files of this folder, and the folder, are named by their place at the source."""
        urls = {path: str(origin["url"]) for path, origin in self.origins.items() if "url" in origin}
        for path in sorted(urls, key=len, reverse=True):
            text = text.replace(str(self.path / path), urls[path])
        folders = {url.rpartition("/")[0] for url in urls.values()}
        return text.replace(str(self.path), folders.pop()) if len(folders) == 1 else text

    def to_json(self) -> str:
        body = {
            "format": FORMAT,
            "step": self.step,
            "digest": self.digest,
            **({"data_uri": self.data_uri} if self.data_uri else {}),
            "rows": dict(self.rows),
            "inputs": dict(self.inputs),
            "parameters": dict(self.parameters),
            "lineage": {step: dict(parameters) for step, parameters in self.lineage.items()},
            "origins": {path: dict(origin) for path, origin in self.origins.items()},
            "files": [asdict(entry) for entry in self.files],
        }
        return json.dumps(body, indent=2) + "\n"


def manifest_head(step: str) -> str:
    """The beginning of every manifest of a step; identifies a manifest that a crash truncated."""
    return json.dumps({"format": FORMAT, "step": step}, indent=2).removesuffix("\n}") + ","


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
        if path.is_symlink():
            require_followed(folder, path, supplied=False)
            if path.is_dir() and not path.resolve().is_relative_to(folder.resolve()):
                raise KfrecError(f"{path}: is a link to a folder, whose files are not seen; link the files one by one")
        if path.is_file() and path != folder / MANIFEST:
            yield path


def artifact_at(folder: Path) -> Artifact | None:
    """The artifact that a folder's manifest describes, or None without a manifest: then any file in it is data.

    Raises:
        KfrecError: the manifest is invalid.
    """
    manifest = folder / MANIFEST
    return parse_manifest(manifest.read_text(errors="replace"), str(manifest), folder) if manifest.is_file() else None


def listed_paths(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder that match, see ``Artifact.paths``; it may lack a manifest."""
    artifact = artifact_at(folder)
    return artifact.paths(pattern) if artifact else sorted(path for path in folder.glob(pattern) if path.is_file())


def require_listed(folder: Path, paths: Iterable[str]) -> None:
    """Rejects unlisted files, and folders with unlisted files; does nothing without a manifest.

    Raises:
        KfrecError: a file exists and is not listed.
    """
    artifact = artifact_at(folder)
    if artifact is None:
        return
    for path in paths:
        below = (file for file in (folder / path).rglob("*") if file.is_file())
        for name in (path, *(file.relative_to(folder).as_posix() for file in below)):
            if not (folder / name).is_dir():
                artifact.file(name)


def _matches(path: str, pattern: str) -> bool:
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def open_artifact(folder: Path | str, *, steps: Collection[str] = ()) -> Artifact:
    """Reads the manifest of a finished artifact and checks that its files are there.

    Args:
        steps: accepted steps; empty takes any.

    Returns:
        The artifact; a reference has few files or none, see ``components.artifacts.reference``.

    Raises:
        KfrecError: no such folder, no valid manifest, another step's output, or a file is missing or of another size.
    """
    folder = Path(folder)
    manifest = folder / MANIFEST
    if not folder.is_dir():
        raise KfrecError(f"{folder}: no such folder; run the step that writes it first")
    try:
        text = manifest.read_text(errors="replace")
    except FileNotFoundError:
        raise KfrecError(
            f"{manifest}: missing, so the folder is unfinished; run the step again, or, if you brought these "
            f"files yourself, accept them with: python -m components.artifacts {folder}"
        ) from None
    artifact = parse_manifest(text, str(manifest), folder)
    if steps:
        artifact.require_step(steps)
    for entry in artifact.files:
        path = folder / entry.path
        if not path.is_file():
            if artifact.data_uri:
                continue
            raise KfrecError(f"{path}: listed in {MANIFEST} but missing; run the {artifact.step} step again")
        require_followed(folder, path, supplied=False)
        if path.stat().st_size != entry.size:
            raise KfrecError(
                f"{path}: {path.stat().st_size} bytes, {MANIFEST} says {entry.size}; run the {artifact.step} step again"
            )
    return artifact


def parse_manifest(text: str, name: str, folder: Path) -> Artifact:
    """The artifact that a manifest describes.

    Args:
        folder: where the artifact's files are, or will be.

    Raises:
        KfrecError: it is not a manifest, has another format, or was modified.
    """
    try:
        body = json.loads(text)
        if body["format"] != FORMAT:
            raise KfrecError(
                f"{name}: is of format {body['format']!r}, this kfrec reads {FORMAT}; use the kfrec that wrote it, or "
                "run the step again"
            )
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
            body.get("data_uri", ""),
        )
        recorded = body["digest"]
    except (ValueError, KeyError, TypeError) as error:
        raise KfrecError(f"{name}: not a manifest ({error}); run the step that writes it again") from None
    for entry in files:
        if entry.path.startswith("/") or ".." in entry.path.split("/"):
            raise KfrecError(f"{name}: lists {entry.path}, which is outside the folder; run the step again")
    if recorded != artifact.digest:
        raise KfrecError(f"{name}: its digest does not match its list of files; run the step again")
    return artifact
