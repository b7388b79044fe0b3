"""Which files of a source make up a raw data set, and which of them are no longer those that were fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from components import registry
from components.artifacts import Artifact
from components.artifacts.folder import crc32c_of
from components.datasets import RawContract
from components.download.shelf import origin_of
from components.errors import KfrecError
from components.extensions import DATASETS
from components.parameters import SYNTHETIC
from components.secrets import without_password
from components.steps.catalog import DownloadParameters
from components.storage import ObjectInfo, Retry, Store, open_store
from components.workflows.partitions import is_partition, name_within


def wanted_files(store: Store, contract: RawContract, files: str, retry: Retry) -> list[str]:
    """The names within ``store`` of the files to fetch.

    Args:
        files: names separated by commas; empty means every raw file at the source, or the data set's default names if
            the source cannot be listed.

    Raises:
        KfrecError: a kind of files would be missing, or two files have one name.
    """
    if files.strip():
        names = [name.strip() for name in files.split(",") if name.strip()]
        odd = [name for name in names if not contract.kind_of(PurePosixPath(name).name)]
        if odd:
            raise KfrecError(f"parameter files: {odd[0]} is not named {contract.examples}; rename it")
        _check(contract, names, "parameter files", f"the names given are {', '.join(names)}")
        return names
    if contract.kind_of(PurePosixPath(store.uri).name):
        raise KfrecError(
            f"{store.uri}: is a file; give the folder or prefix that holds it as source, and name it with "
            "the parameter files"
        )
    there = retry.call(store.uri, store.names)
    if there is None:
        if not contract.unlisted:
            raise KfrecError(f"{store.uri}: cannot be listed; name the files with the parameter files")
        return list(contract.unlisted)
    names = [name for name in there if contract.kind_of(name)]
    if contract.partitioned:
        names += _partitions(store, contract, retry)
    folders = _folders(store.uri)
    within = f"; folders in it, such as {folders[0]}, are not read: name one as the source" if folders else ""
    _check(contract, names, store.uri, f"it holds {_some(there)}{within}", _readers(there))
    return names


def _partitions(store: Store, contract: RawContract, retry: Retry) -> list[str]:
    """The names of the files in folders named KEY=VALUE, and in such folders within them."""
    names = []
    for folder in filter(is_partition, retry.call(store.uri, store.folders)):
        within = open_store(store.url(folder))
        there = retry.call(within.uri, within.names) or []
        found = [name for name in there if contract.kind_of(name)]
        names += [f"{folder}/{name}" for name in (*found, *_partitions(within, contract, retry))]
    return names


def _check(contract: RawContract, names: list[str], source: str, seen: str, readers: str = "") -> None:
    local = [name_within(PurePosixPath(name)) for name in names]
    if lacking := contract.lacking(PurePosixPath(name).name for name in names):
        needed = ", ".join(kind.name for kind in contract.kinds if kind.required)
        raise KfrecError(f"{source}: no {lacking.example} file ({seen}); one of each kind is needed: {needed}{readers}")
    plain = [name.removesuffix(".gz") for name in local]
    for name in plain:
        if plain.count(name) > 1:
            raise KfrecError(
                f"{source}: {name} exists twice (plain, compressed or in two folders); select one with the "
                "parameter files"
            )


def _readers(files: list[str]) -> str:
    """What a message says of the data sets that read such files; empty if none does."""
    fitting = []
    for name in registry.names(DATASETS):
        try:
            if not registry.dataset(name).raw.lacking(files):
                fitting.append(name)
        except KfrecError:  # a package that cannot be imported
            continue
    return f"; such files are those of the data set {' or '.join(fitting)} (parameter dataset)" if fitting else ""


def _folders(source: str) -> list[str]:
    """The folders in a local folder, sorted by name."""
    path = Path(source)
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir()) if path.is_dir() else []


def _some(names: list[str]) -> str:
    if not names:
        return "no files"
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


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
