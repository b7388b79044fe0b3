"""The raw files: reviews_*.json and meta_*.json, plain or gzip, as Amazon's of 2014 are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from components.artifacts import Artifact
from components.datasets.definition import RawContract, RawKind
from components.errors import KfrecError

REVIEWS = RawKind("reviews", r"reviews_.+\.json(\.gz)?", "reviews_*.json or reviews_*.json.gz", "reviews")
META = RawKind("meta", r"meta_.+\.json(\.gz)?", "meta_*.json or meta_*.json.gz", "items")
CONTRACT = RawContract((REVIEWS, META), unlisted=("reviews_Books.json.gz", "meta_Books.json.gz"))


@dataclass(frozen=True)
class RawFiles:
    """The files of a raw folder, each kind sorted by name."""

    reviews: tuple[Path, ...]
    metadata: tuple[Path, ...]


def find_raw_files(raw: Artifact) -> RawFiles:
    """The reviews and metadata files of a raw artifact.

    Raises:
        KfrecError: a kind is missing, or a file exists both plain and compressed.
    """
    return RawFiles(_find(raw, REVIEWS), _find(raw, META))


def _find(raw: Artifact, kind: RawKind) -> tuple[Path, ...]:
    found = [path for path in raw.paths("*") if kind.matches(path.name)]
    if not found:
        raise KfrecError(f"{raw.path}: no {kind.example} here; put the raw files there, as download does")
    for path in found:
        if path.with_name(f"{path.name}.gz") in found:
            raise KfrecError(f"{path}: also exists as {path.name}.gz; remove one of the two")
    return tuple(found)
