"""Which files of a source make up a raw data set."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from components.errors import KfrecError
from components.storage import Retry, Store

AMAZON_BOOKS_2014 = ("reviews_Books.json.gz", "meta_Books.json.gz")
_KINDS = ("reviews", "meta")
_RAW = re.compile(r"(reviews|meta)_.+\.json(\.gz)?")


def wanted_files(store: Store, files: str, retry: Retry) -> list[str]:
    """The names within ``store`` of the files to fetch.

    Args:
        store: the source.
        files: names separated by commas; empty means every raw file there, or the two Amazon Books 2014 files where
            the source cannot be listed.
        retry: how often to ask for the list.

    Raises:
        KfrecError: there would be no reviews or no metadata, or two files of one name.
    """
    if files.strip():
        names = [name.strip() for name in files.split(",") if name.strip()]
        odd = [name for name in names if not _RAW.fullmatch(PurePosixPath(name).name)]
        if odd:
            raise KfrecError(
                f"parameter files: {odd[0]} is not named reviews_*.json[.gz] or meta_*.json[.gz]; rename it"
            )
        _check(names, "parameter files", f"the names given are {', '.join(names)}")
        return names
    if _RAW.fullmatch(PurePosixPath(store.uri).name):
        raise KfrecError(
            f"{store.uri}: is a file; give the place that holds it as source, and name the reviews_* and the meta_* "
            "file with the parameter files"
        )
    there = retry.call(store.uri, store.names)
    if there is None:
        return list(AMAZON_BOOKS_2014)
    names = [name for name in there if _RAW.fullmatch(name)]
    _check(names, store.uri, f"it holds {_some(there)}")
    return names


def _check(names: list[str], place: str, seen: str) -> None:
    local = [PurePosixPath(name).name for name in names]
    for kind in _KINDS:
        if not any(name.startswith(f"{kind}_") for name in local):
            raise KfrecError(
                f"{place}: no {kind}_*.json or {kind}_*.json.gz file ({seen}); both reviews_* and meta_* are needed"
            )
    plain = [name.removesuffix(".gz") for name in local]
    for name in plain:
        if plain.count(name) > 1:
            raise KfrecError(
                f"{place}: {name} is there twice (plain, compressed or in two folders); choose with the parameter files"
            )


def _some(names: list[str]) -> str:
    if not names:
        return "no files"
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
