"""Fetches every raw file of a source, or generates a synthetic data set, into the raw artifact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from components.artifacts import publishing
from components.download.fetch import Fetcher
from components.download.retry import Retry
from components.download.shelf import CacheShelf, EarlierOutput
from components.download.synthetic import write_synthetic
from components.download.wanted import wanted_files
from components.steps.catalog import DownloadParameters
from components.steps.parameter import as_plain
from components.storage import open_store

SYNTHETIC = "synthetic"


def run(parameters: DownloadParameters, *, raw: Path) -> Mapping[str, int]:
    """Writes the raw artifact.

    Returns:
        {"files": number of files, "bytes": their total size}

    Raises:
        KfrecError: the source is missing, incomplete, damaged or does not answer.
    """
    with publishing(raw, step="download", parameters=as_plain(parameters)) as staging:
        if parameters.source == SYNTHETIC:
            write_synthetic(parameters, staging.path)
        else:
            store = open_store(parameters.source, parameters.timeout)
            retry = Retry(parameters.attempts)
            names = wanted_files(store, parameters.files, retry)
            with CacheShelf.opened(parameters.cache_dir, store.uri, staging.path) as shelf:
                fetcher = Fetcher(store, retry, shelf, EarlierOutput.at(raw))
                staging.origins.update(fetcher.fetch_all(names, staging.path))
        sizes = [path.stat().st_size for path in staging.path.iterdir()]
        staging.rows.update(files=len(sizes), bytes=sum(sizes))
    return staging.rows
