"""Fetches every raw file of a source, or generates a synthetic data set, into the raw artifact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from components import registry
from components.artifacts import publishing
from components.artifacts.folder import files_below
from components.download.fetch import Fetcher, count_lines
from components.download.shelf import CacheShelf, EarlierOutput
from components.download.wanted import wanted_files
from components.parameters import SYNTHETIC
from components.steps.catalog import DownloadParameters
from components.steps.recorded import recorded
from components.storage import Retry, is_uri, open_store

_REMEDY = "check the source and run again, with a cache_dir to keep what was fetched"


def run(parameters: DownloadParameters, *, raw: Path) -> Mapping[str, int]:
    """Writes the raw artifact.

    Returns:
        Lines of the files of each kind, such as {"reviews": 62000, "items": 3000}.

    Raises:
        KfrecError: the source is missing, incomplete, damaged or does not answer.
    """
    dataset = registry.dataset(parameters.dataset)
    synthetic = parameters.source == SYNTHETIC
    reads = () if synthetic or is_uri(parameters.source) else (parameters.source.removeprefix("file://"),)
    with publishing(raw, step="download", parameters=recorded(parameters), reads=reads) as staging:
        if synthetic:
            dataset.generate(parameters, staging.path)
        else:
            store = open_store(parameters.source, parameters.timeout)
            retry = Retry(parameters.attempts, longest_wait=parameters.longest_wait, remedy=_REMEDY)
            names = wanted_files(store, dataset.raw, parameters.files, retry)
            with CacheShelf.opened(parameters.cache_dir, store.uri, staging.path) as shelf:
                limit = round(parameters.largest_download * 1e9)
                fetcher = Fetcher(store, retry, shelf, EarlierOutput.at(raw), limit)
                staging.origins.update(fetcher.fetch_all(names, staging.path))
        staging.rows.update({kind.rows: 0 for kind in dataset.raw.kinds})
        for path in files_below(staging.path):
            name = path.relative_to(staging.path).as_posix()
            label = str(staging.origins.get(name, {}).get("url", name))
            if kind := dataset.raw.kind_of(path.name):
                staging.rows[kind.rows] += count_lines(path, label)
    return staging.rows
