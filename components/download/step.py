"""Fetches every raw file of a source, or generates a synthetic data set, into the raw artifact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from components import registry
from components.artifacts import publishing
from components.artifacts.folder import crc32c_of, files_below
from components.download.fetch import Fetcher, count_lines
from components.download.shelf import CacheShelf, EarlierOutput
from components.download.wanted import wanted_files
from components.parameters import SYNTHETIC
from components.progress import progress, warn
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
        files: list[Path] = []
        staging.rows.update({kind.rows: 0 for kind in dataset.raw.kinds})
        found = {path: kind for path in files_below(staging.path) if (kind := dataset.raw.kind_of(path.name))}
        size = sum(path.stat().st_size for path in found)
        with progress(f"checking {len(found)} file{'s' * (len(found) != 1)}", size, "bytes") as bar:
            for path, kind in found.items():
                name = path.relative_to(staging.path).as_posix()
                lines = count_lines(path, str(staging.origins.get(name, {}).get("url", name)), bar.advance)
                staging.rows[kind.rows] += lines
                if lines > 1:
                    files.append(path)
        _warn_of_copies(files, staging.path)
    return staging.rows


def _warn_of_copies(files: Sequence[Path], folder: Path) -> None:
    """Warns of files with identical bytes, such as a day that was copied under another name."""
    sizes = Counter(path.stat().st_size for path in files)
    first: dict[tuple[int, str], str] = {}
    for path in files:
        size, name = path.stat().st_size, path.relative_to(folder).as_posix()
        if sizes[size] == 1:
            continue
        earlier = first.setdefault((size, crc32c_of(path)), name)
        if earlier != name:
            warn(
                "download", f"copy {name}", f"{name}: has the content of {earlier}, so its rows count twice; remove one"
            )
