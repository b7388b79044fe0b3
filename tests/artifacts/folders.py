"""Artifacts of a few files, and what a folder holds."""

from __future__ import annotations

from pathlib import Path

from components.artifacts import publishing


def published(folder: Path, content: dict[str, bytes]) -> Path:
    """An artifact of the tfrecord step."""
    with publishing(folder, step="tfrecord") as staging:
        for name, body in content.items():
            (staging.path / name).parent.mkdir(parents=True, exist_ok=True)
            (staging.path / name).write_bytes(body)
        staging.rows["train"] = 5
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
