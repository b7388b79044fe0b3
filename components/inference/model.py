"""Resolves a model's name: a version or an alias in the registry, or a folder."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.artifacts.remote import local_copy
from components.errors import KfrecError
from components.scoring import RawModel, load_raw_model, open_trained
from components.scoring.model import MODEL_FILES
from components.scoring.pair import Pair, is_pair, load_pair
from components.storage import is_uri
from components.tracking.champion import DATA, FilesGone, download_version
from components.tracking.failures import is_of_the_store, unusable
from components.tracking.store import connect, database_of, missing, tracking_uri

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

_REGISTRY = "models:/"
_WANTED = (
    "give name@alias or name/version of a registered model (kfrec models lists them), or the folder that the train "
    "step wrote"
)


@dataclass(frozen=True)
class NamedModel:
    """A loaded model and its origin.

    Attributes:
        description: for messages, such as "kfrec-ctr version 3".
        name: the registered name, or the folder or URI as given.
        version: the registered version, or the digest of a folder's files; empty for a URI.
        data: folder or URI of the records that it was registered with; empty if unknown.
        pair: the pair whose ranker ``raw`` is; None if it is one model.
        registered: the registered version; empty for a folder or a URI.
    """

    raw: RawModel
    description: str
    data: str = ""
    pair: Pair | None = None
    name: str = ""
    version: str = ""
    registered: str = ""


@dataclass(frozen=True)
class NamedFiles:
    """The files of a model or a pair, and their origin.

    Attributes:
        name: of the registered model; the folder's name, or the URI's last part, of another one.
        version: of the registered model; empty for another one.
        described: for messages, such as "kfrec-ctr version 3".
        data: folder or URI of the records that it was registered with; empty if unknown.
        digest: of a folder's content; else empty.
    """

    folder: Path
    name: str
    version: str
    described: str
    data: str = ""
    digest: str = ""

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Names the registered model instead of a temporary folder in errors of the block."""
        try:
            yield
        except KfrecError as error:
            if not self.version:
                raise
            raise KfrecError(f"{self.described}: {str(error).replace(str(self.folder), 'its files')}") from None


@contextmanager
def named_files(named: str) -> Iterator[NamedFiles]:
    """Finds a model's files, which exist for the block.

    Args:
        named: ``name@alias`` or ``name/version`` of a registered model, with or without ``models:/``, or the folder or
            URI of an output of the train step.

    Raises:
        KfrecError: there is no such model.
    """
    if not named.strip():
        raise KfrecError(f"the model's name is empty; {_WANTED}")
    with tempfile.TemporaryDirectory(prefix="kfrec-model-") as scratch:
        folder = Path(scratch) / "model"
        if is_registered(named):
            held = version_of(named)
            try:
                found = download_version(connect(), held.name, held.version, folder)
            except FilesGone as error:
                raise KfrecError(f"{named}: version {held.version}: {error}") from None
            about, data = f"{held.name} version {held.version}", held.tags.get(DATA, "")
            yield NamedFiles(found, held.name, str(held.version), about, data)
        else:
            trained = None if is_uri(named) else open_trained(Path(named))
            found = trained.path if trained else local_copy(named, folder, *MODEL_FILES)
            name = named.rstrip("/").rpartition("/")[2] or named
            yield NamedFiles(found, name, "", named, digest=trained.digest if trained else "")


@contextmanager
def named_model(named: str) -> Iterator[NamedModel]:
    """Loads the model that ``named_files`` finds; its files exist for the block.

    Raises:
        KfrecError: there is no such model, or it does not take raw rows.
    """
    with named_files(named) as files:
        with files.loading():
            pair = load_pair(files.folder) if is_pair(files.folder) else None
            raw = pair.ranker if pair else load_raw_model(files.folder)
        name = files.name if files.version else named
        yield NamedModel(raw, files.described, files.data, pair, name, files.version or files.digest, files.version)


def is_registered(named: str) -> bool:
    """Whether a name is in the registry's form, rather than a folder or its URI.

    Raises:
        KfrecError: it is neither.
    """
    if named.startswith(_REGISTRY):
        return True
    if is_uri(named) or Path(named).exists():
        return False
    if _parts(named) is None:
        raise KfrecError(f"{named}: no such folder, and no registered model's version; {_WANTED}")
    return True


def version_of(named: str) -> ModelVersion:
    """The version that a registry name resolves to now.

    Raises:
        KfrecError: there is none, or the registry does not answer.
    """
    parts = _parts(named)
    if parts is None:
        raise KfrecError(f"{named}: no name of a registered model's version; {_WANTED}")
    name, alias, version = parts
    uri = tracking_uri()
    database = database_of(uri)
    if database and not database.is_file():
        raise KfrecError(f"{named}: no registry here, {database} does not exist; give --workdir or --tracking-uri")
    from mlflow.exceptions import MlflowException

    client = connect()
    try:
        if alias:
            return client.get_model_version_by_alias(name, alias)
        return client.get_model_version(name, version)
    except (MlflowException, *missing()) as error:
        if isinstance(error, MlflowException) and not is_of_the_store(error):
            said = str(error).splitlines()[0]
            raise KfrecError(f"{named}: not in the registry at {client.tracking_uri} ({said}); {_WANTED}") from None
        raise unusable(client.tracking_uri, error) from error


def _parts(named: str) -> tuple[str, str, str] | None:
    """Name, alias and version; alias or version is empty."""
    match = re.fullmatch(r"([^/@:]+)(?:@([^/@:]+)|/([1-9][0-9]{0,17}))", named.removeprefix(_REGISTRY))
    return (match[1], match[2] or "", match[3] or "") if match else None
