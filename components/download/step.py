"""Fetches every raw file of a source, or generates a synthetic data set, into the raw artifact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from components.artifacts import publishing
from components.download.complete import count_lines
from components.download.fetch import Fetcher
from components.download.shelf import CacheShelf, EarlierOutput
from components.download.synthetic import write_synthetic
from components.download.wanted import wanted_files
from components.steps.catalog import SYNTHETIC, DownloadParameters
from components.steps.parameter import as_plain
from components.storage import Retry, open_store

_REMEDY = "check the source and run again, with a cache_dir to keep what was fetched"


def run(parameters: DownloadParameters, *, raw: Path) -> Mapping[str, int]:
    """Writes the raw artifact.

    Returns:
        {"reviews": lines of the reviews files, "items": lines of the metadata files}

    Raises:
        KfrecError: the source is missing, incomplete, damaged or does not answer.
    """
    with publishing(raw, step="download", parameters=as_plain(parameters)) as staging:
        if parameters.source == SYNTHETIC:
            write_synthetic(parameters, staging.path)
        else:
            store = open_store(parameters.source, parameters.timeout)
            retry = Retry(parameters.attempts, remedy=_REMEDY)
            names = wanted_files(store, parameters.files, retry)
            with CacheShelf.opened(parameters.cache_dir, store.uri, staging.path) as shelf:
                fetcher = Fetcher(store, retry, shelf, EarlierOutput.at(raw))
                staging.origins.update(fetcher.fetch_all(names, staging.path))
        staging.rows.update(reviews=0, items=0)
        for path in sorted(staging.path.iterdir()):
            label = str(staging.origins.get(path.name, {}).get("url", path.name))
            kind = "reviews" if path.name.startswith("reviews_") else "items"
            staging.rows[kind] += count_lines(path, label)
    return staging.rows
