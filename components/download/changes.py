"""Which files of a source are no longer those that were fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components import registry
from components.artifacts import Artifact
from components.artifacts.folder import crc32c_of
from components.download.shelf import origin_of
from components.download.wanted import wanted_files
from components.parameters import SYNTHETIC
from components.secrets import without_password
from components.steps.catalog import DownloadParameters
from components.storage import ObjectInfo, Retry, Store, open_store


def changed_files(parameters: DownloadParameters, raw: Artifact) -> list[str]:
    """The files that the source has now in another version, in addition, or no more, in a few words each.

    A source that tells neither checksum, size nor version of a file counts as unchanged.

    Raises:
        KfrecError: the source cannot be read.
    """
    if parameters.source == SYNTHETIC:
        return []
    store, retry = open_store(parameters.source, parameters.timeout), Retry(1)
    names = wanted_files(store, registry.dataset(parameters.dataset).raw, parameters.files, retry)
    fetched = {without_password(str(origin["url"])): path for path, origin in raw.origins.items()}
    infos = {without_password(store.url(name)): retry.call(store.uri, store.stat, name) for name in names}
    changed = [url for url, info in infos.items() if url in fetched and _differs(store, info, raw, fetched[url])]
    return [
        *(f"{url} has changed" for url in changed),
        *(f"{url} is new" for url in infos if url not in fetched),
        *(f"{url} is gone" for url in fetched if url not in infos),
    ]


def _differs(store: Store, info: ObjectInfo, raw: Artifact, path: str) -> bool:
    """Whether the object is certainly not the fetched file."""
    file, origin = raw.path / path, raw.origins[path]
    if info.size is not None and info.size != file.stat().st_size:
        return True
    if info.checksum is not None:
        return not info.checksum.matches(file)
    if not info.version or _version(origin) == _version(origin_of("", info)):
        return False
    here = store.path(info.name)  # a new time of modification alone changes nothing
    return here is None or crc32c_of(here) != crc32c_of(file)


def _version(origin: Mapping[str, Any]) -> Any:
    return origin.get("version")
