"""All users' whole histories, from raw files of the data set that a model was trained with."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components import registry
from components.artifacts import Artifact, open_input
from components.artifacts.folder import ADOPTED, MANIFEST, FileEntry, files_below
from components.checks.profiler import Profiler
from components.datasets.definition import READING, PreprocessJob
from components.datasets.event_lists import items_of
from components.errors import KfrecError
from components.inference.history import REMEDY, People, some
from components.parameters import build, parameters_of
from components.scoring import RawModel
from components.scoring.catalogue import Catalogue
from components.steps.catalog import STEPS

# The parameter of data sets whose events have kinds: those that histories have.
_KINDS = "context_kinds"


def reads_events(model: RawModel) -> bool:
    """Whether the histories of raw files can be read as those that the model was trained with."""
    return registry.dataset(model.dataset).histories is not None and _reading(model) is not None


def events_in(
    raw: Artifact,
    model: RawModel,
    users: Sequence[str] | None,
    remedy: str = REMEDY,
    kinds: str = "",
    since: int | None = None,
) -> People:
    """Users and all their events, oldest first, in memory that does not grow with the number of users.

    Args:
        raw: files of the model's data set, with the columns and formats of those that it was trained with.
        users: ids; None is every user with an event.
        remedy: ends the message about a user who has none.
        kinds: of the events, separated by commas; empty is those that histories have.
        since: only events from this moment on, in nanoseconds since 1970; None is all.

    Returns:
        Users in the order of ``users``, or in no particular one. One of ``users`` without an event has no list (null).

    Raises:
        KfrecError: a file is damaged or has other columns, or none of the users has an event in it.
    """
    read = registry.dataset(model.dataset).histories
    parameters = _reading(model, {_KINDS: kinds} if kinds else {})
    assert read is not None and parameters is not None
    with tempfile.TemporaryDirectory(prefix="kfrec-events-") as folder:
        scratch = Path(folder)
        profiler = Profiler(model.dataset, parameters, 0, None)
        job = PreprocessJob(parameters, raw, scratch, scratch, scratch, "", profiler, since=since)
        try:
            people = read(job)
            yield from people if users is None else _chosen(people, users, raw, model, remedy)
        except KfrecError as error:
            error.args = (raw.at_source(str(error)),)
            raise


def never_again(
    raw: Artifact, model: RawModel, kinds: str, option: str, users: Sequence[str] | None = None
) -> pa.Table:
    """What users have in events of some kinds, such as what they bought.

    Args:
        kinds: separated by commas.
        option: names them, for messages, such as "--never-again".
        users: as for ``events_in``.

    Returns:
        Columns user and item.

    Raises:
        KfrecError: as of ``events_in``, or the events have no such kind.
    """
    group = STEPS["preprocess"].parameters({"dataset": model.dataset})
    if _KINDS not in {parameter.name for parameter in parameters_of(group)}:
        raise KfrecError(
            f"{option} {kinds}: events of {model.dataset} have no kinds; name the items in a file to exclude"
        )
    try:
        pairs = [
            pa.table({"user": names.take(pc.list_parent_indices(events)), "item": items_of(events).flatten()})
            for names, events in events_in(raw, model, users, kinds=kinds)
        ]
    except KfrecError as error:
        error.args = (str(error).replace(f"parameter {_KINDS}", f"{option} {kinds}"),)
        raise
    return pa.concat_tables(pairs)


def list_new_items(catalogue: Catalogue, raw: Artifact | None) -> None:
    """Lists candidates that the model does not know by how popular they are in their category since its training.

    Does nothing where there are none, no candidate has a category, or the model tells no likelihood.

    Args:
        raw: files with the events up to now; None is none, so that new items are equally popular.
    """
    if not catalogue.lists_new:
        return
    counts = np.zeros(len(catalogue.names))
    model = catalogue.raw
    if raw is not None:
        for _, events in events_in(raw, model, None, since=model.model.spec.cuts.get("train_end")):
            items = catalogue.spelled(items_of(events).flatten())
            found = pc.index_in(items, value_set=catalogue.names, skip_nulls=True).drop_null()
            counts += np.bincount(found.to_numpy(), minlength=len(counts))
    catalogue.list_new(counts)


def _chosen(people: People, users: Sequence[str], raw: Artifact, model: RawModel, remedy: str) -> People:
    wanted = model.spelled("user", pa.array(users, pa.string())).cast(pa.string())
    batches = (pa.table({"user": names, "items": items}) for names, items in people)
    kept = pa.concat_tables([batch.filter(pc.is_in(batch["user"], value_set=wanted)) for batch in batches])
    places = pc.index_in(wanted, value_set=kept["user"].combine_chunks())
    if places.null_count == len(users):
        raise KfrecError(f"user {some(users)}: no event in {raw.path}; {remedy}")
    yield pa.array(users, pa.string()), kept["items"].combine_chunks().take(places)


def raw_files(named: Sequence[str], scratch: Path) -> Artifact:
    """A folder of raw files, or single files, as what the download step writes; nothing is copied.

    Args:
        named: a folder, with the manifest of the download step or without one, or files.
        scratch: an empty folder for links to the files.

    Raises:
        KfrecError: one does not exist, or two files have one name.
    """
    first = Path(named[0])
    if len(named) == 1 and (first / MANIFEST).is_file():
        return open_input(first, steps=("download",))
    if len(named) == 1 and first.is_dir():
        return _unlisted(first, {})
    origins = {}
    for path in map(Path, named):
        if not path.is_file():
            raise KfrecError(f"--events {path}: no such file; give one folder, or a file with each --events")
        if path.name in origins:
            raise KfrecError(f"--events {path}: a second file of that name; rename one, or put them into one folder")
        (scratch / path.name).symlink_to(path.resolve())
        origins[path.name] = {"url": str(path)}
    return _unlisted(scratch, origins)


def _unlisted(folder: Path, origins: dict[str, dict[str, Any]]) -> Artifact:
    paths = [path for path in folder.iterdir() if path.is_symlink()] if origins else files_below(folder)
    entries = (FileEntry(path.relative_to(folder).as_posix(), path.stat().st_size, "") for path in paths)
    return Artifact(folder, ADOPTED, tuple(entries), {}, {}, {}, origins)


def _reading(model: RawModel, others: Mapping[str, str] | None = None) -> Any | None:
    """The preprocess parameters that the model's data were read with; None if an earlier kfrec noted none.

    Args:
        others: values in place of those.
    """
    noted = model.model.spec.metadata["encoding"].get(READING)
    if noted is None:
        return None
    group = STEPS["preprocess"].parameters({"dataset": model.dataset})
    known = {parameter.name for parameter in parameters_of(group)}
    values = {name: value for name, value in noted.items() if name in known}
    return build(group, {"dataset": model.dataset, "workers": 1, **values, **(others or {})})
