"""Removes a user's rows from served rows and outcomes, and finds the models that have learned the user."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec, load_feature_spec
from components.feature_spec.values import read_values
from components.feedback.outcomes import REQUEST, ROW, USER, local_outcomes, outcome_files
from components.inference.formats import rows_file, writing
from components.served_rows.table import read_file, served_files
from components.storage import Retry
from components.tracking.champion import DATA, DATA_VERSION, download_version, versions_of
from components.tracking.failures import unusable
from components.tracking.store import connect, missing
from components.workflows.values import DEFAULT_MISSING, texts

_RETRY = Retry(5)
_ROWS = 65_536


class Removed(NamedTuple):
    """What was removed of a user.

    Attributes:
        requests: (request id, row) of scored rows and lists.
    """

    rows: int
    files: int
    requests: frozenset[tuple[str, int]] = frozenset()


class Contains(NamedTuple):
    """A registered version whose vocabulary has a user."""

    name: str
    version: str
    vocabulary: str
    data: str
    data_version: str


def forget_served(location: str, user: str, column: str = "", *, dry: bool = False) -> Removed:
    """Removes the rows of a user from the files of served rows, each of which is replaced as a whole.

    Args:
        location: folder or URI of served rows.
        column: raw column that names the user, of models that read no user.
        dry: only count.

    Raises:
        KfrecError: a file cannot be read or replaced.
    """
    rows = files = 0
    requests: set[tuple[str, int]] = set()
    for store, name in served_files(location):
        table = read_file(store, name)
        own = table["user"].to_pandas().eq(user).to_numpy()
        if column:
            bodies = [json.loads(text) if text else {} for text in table["columns"].to_pylist()]
            own |= np.array([str(body.get(column)) == user for body in bodies], bool)
        if not own.any():
            continue
        gone = table.filter(pa.array(own))
        rows, files = rows + len(gone), files + 1
        requests |= set(zip(gone[REQUEST].to_pylist(), gone[ROW].to_pylist(), strict=True))
        if not dry:
            with tempfile.TemporaryDirectory(prefix="kfrec-forget-") as scratch:
                kept = Path(scratch) / "rows.parquet"
                pq.write_table(table.filter(pa.array(~own)), kept)
                _RETRY.call(store.url(name), store.write, name, kept)
    return Removed(rows, files, frozenset(requests))


def forget_outcomes(
    location: str, user: str, requests: frozenset[tuple[str, int]] = frozenset(), *, dry: bool = False
) -> Removed:
    """Removes the outcomes of a user, by name or by request, from a file, or the files of a folder or prefix.

    Args:
        requests: (request id, row) of the user's served rows.
        dry: only count.

    Raises:
        KfrecError: a file cannot be read or replaced, or has no other outcomes; delete such a file.
    """
    store, names = outcome_files(location)
    rows = files = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="kfrec-forget-") as folder:
            scratch = Path(folder)
            with local_outcomes(store, name, scratch) as (path, shown):
                kept, found, left = scratch / f"kept-{Path(name).name}", 0, 0
                with writing(kept, rows_file(path)) as writer:
                    for batch in rows_file(path).batches(_ROWS):
                        own = _own(batch, user, requests)
                        found, left = found + int(own.sum()), left + int((~own).sum())
                        if not own.all():
                            writer.write(batch.filter(pa.array(~own)))
                if found and not left and not dry:
                    raise KfrecError(f"{shown}: all of its {found:,} outcomes are of user {user}; delete the file")
                if found and not dry:
                    _RETRY.call(store.url(name), store.write, name, kept)
                rows, files = rows + found, files + bool(found)
    return Removed(rows, files)


def models_with(user: str, column: str = "") -> Iterator[Contains]:
    """The registered versions whose vocabulary has a user, with the data that they have learned from.

    Args:
        column: feature that names the user, of models that read no user; empty is the users of histories.

    Raises:
        KfrecError: the store cannot be read.
    """
    from mlflow.exceptions import MlflowException

    client = connect()
    try:
        models = client.search_registered_models(max_results=1000)
        versions = [held for model in models for held in versions_of(client, model.name)]
    except (MlflowException, *missing()) as error:
        raise unusable(client.tracking_uri, error) from error
    for held in sorted(versions, key=lambda held: (held.name, int(held.version))):
        with tempfile.TemporaryDirectory(prefix="kfrec-forget-") as folder:
            spec = load_feature_spec(download_version(client, held.name, str(held.version), Path(folder)))
            for name in _with(spec, user, column):
                data, version = (held.tags.get(tag, "") for tag in (DATA, DATA_VERSION))
                yield Contains(held.name, str(held.version), name, data, version)


def _own(batch: pa.RecordBatch, user: str, requests: frozenset[tuple[str, int]]) -> np.ndarray:
    """The mask of a user's outcomes."""
    own = np.zeros(len(batch), bool)
    if USER in batch.schema.names:
        own |= texts(batch[USER], DEFAULT_MISSING).to_pandas().eq(user).to_numpy(bool)
    if REQUEST in batch.schema.names:
        ids = texts(batch[REQUEST], DEFAULT_MISSING).to_pylist()
        numbers = batch[ROW].to_pylist() if ROW in batch.schema.names else [0] * len(batch)
        own |= np.array([(name, int(row or 0)) in requests for name, row in zip(ids, numbers, strict=True)], bool)
    return own


def _with(spec: FeatureSpec, user: str, column: str) -> Iterator[str]:
    """The vocabularies that have the user."""
    for name in [column] if column else spec.channels.get(Channel.USER, ()):
        vocabulary = spec.vocabulary_of(name) if name in spec.features else None
        if vocabulary is not None and user in set(read_values(spec, vocabulary)[1].to_pylist()):
            yield name
