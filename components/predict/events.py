"""All users' whole histories, from raw files of the data set that a model was trained with."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from components import registry
from components.artifacts import Artifact, open_input
from components.artifacts.folder import ADOPTED, MANIFEST, FileEntry, files_below
from components.checks.profiler import Profiler
from components.datasets.definition import READING, PreprocessJob
from components.datasets.raw_rows import SpelledIds
from components.errors import KfrecError
from components.parameters import build, parameters_of
from components.predict.history import REMEDY, People, some
from components.scoring import RawModel
from components.steps.catalog import STEPS


def reads_events(model: RawModel) -> bool:
    """Whether the histories of raw files can be read as those that the model was trained with."""
    return registry.dataset(model.dataset).histories is not None and _reading(model) is not None


def events_in(raw: Artifact, model: RawModel, users: Sequence[str] | None, remedy: str = REMEDY) -> People:
    """Users and all their events, oldest first, in memory that does not grow with the number of users.

    Args:
        raw: files of the model's data set, with the columns and formats of those that it was trained with.
        users: ids; None is every user with an event.
        remedy: ends the message about a user who has none.

    Returns:
        Users in the order of ``users``, or in no particular one.

    Raises:
        KfrecError: a file is damaged or has other columns, or a user has no event in it.
    """
    read = registry.dataset(model.dataset).histories
    parameters = _reading(model)
    assert read is not None and parameters is not None
    with tempfile.TemporaryDirectory(prefix="kfrec-events-") as folder:
        scratch = Path(folder)
        profiler = Profiler(model.dataset, parameters, 0, None)
        job = PreprocessJob(parameters, raw, scratch, scratch, scratch, "", profiler)
        try:
            people = read(job)
            yield from people if users is None else _chosen(people, users, raw, model, remedy)
        except KfrecError as error:
            error.args = (raw.at_source(str(error)),)
            raise


def _chosen(people: People, users: Sequence[str], raw: Artifact, model: RawModel, remedy: str) -> People:
    rows = model.rows
    wanted = pa.array(users, pa.string())
    wanted = (rows.spelled(wanted) if isinstance(rows, SpelledIds) else wanted).cast(pa.string())
    batches = (pa.table({"user": names, "items": items}) for names, items in people)
    kept = pa.concat_tables([batch.filter(pc.is_in(batch["user"], value_set=wanted)) for batch in batches])
    places = pc.index_in(wanted, value_set=kept["user"].combine_chunks())
    if places.null_count:
        lacking = pc.indices_nonzero(places.is_null()).to_pylist()
        raise KfrecError(f"user {some(users, lacking)}: no event in {raw.path}; {remedy}")
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


def _reading(model: RawModel) -> Any | None:
    """The preprocess parameters that the model's data were read with; None if an earlier kfrec noted none."""
    noted = model.model.spec.metadata["encoding"].get(READING)
    if noted is None:
        return None
    group = STEPS["preprocess"].parameters({"dataset": model.dataset})
    known = {parameter.name for parameter in parameters_of(group)}
    values = {name: value for name, value in noted.items() if name in known}
    return build(group, {"dataset": model.dataset, "workers": 1, **values})
