"""The predict step: files of raw rows in, the same rows with scores out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components.artifacts import publishing
from components.errors import KfrecError
from components.inference.formats import RowsFile, format_of, has_format, rows_file
from components.inference.model import named_model
from components.inference.scoring import Counts, require_ours, score_file
from components.scoring.raw import RawModel
from components.served_rows.batch import batch_log
from components.steps.catalog import PredictParameters
from components.steps.recorded import recorded
from components.storage import Bounded, Retry, Store, fetch_file, open_store

# In the names of files that this step writes beside its input, and does not read.
SCORES = ".scores"
NOTE = "prediction.json"
_RETRY = Retry(5)


def run(parameters: PredictParameters, *, predictions: Path) -> Mapping[str, Any]:
    """Scores every file and writes the ``predictions`` folder, and the same files beside the rows if asked to.

    Returns:
        ``rows`` scored, ``rows_with_unknown_ids`` among them, and both with the model in a line, as ``summary``.

    Raises:
        KfrecError: no rows, no such model, or rows that do not fit it.
    """
    store, names = _files(parameters.rows)
    total = Counts()
    received = Bounded(parameters.rows, round(parameters.largest_download * 1e9))
    reads = [path.parent for name in names[:1] if (path := store.path(name))]
    with (
        named_model(parameters.model_version) as named,
        publishing(predictions, step="predict", parameters=recorded(parameters), reads=reads) as staging,
        batch_log(parameters.log, named.name, named.registered) as log,
    ):
        if parameters.beside:
            _require_replaceable(store, names, named.raw, staging.scratch, received)
        for name in names:
            target = staging.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with _on_this_machine(store, name, staging.scratch / Path(name).name, received) as (source, version):
                size = parameters.prediction_batch_size
                counts = score_file(named.raw, source, target, rows_file(target), size, f"scoring {name}", log)
            total.merge(counts)
            staging.origins[name] = {"source": store.url(name), "version": version}
        note = {"model": named.description, "rows": total.rows, "unknown_ids": total.unknown}
        (staging.path / NOTE).write_text(json.dumps(note, indent=2) + "\n")
        staging.rows |= {"rows": total.rows, "rows_with_unknown_ids": total.with_unknown}
    if parameters.beside:
        for name in names:
            _RETRY.call(store.url(name), store.write, scores_name(name), predictions / name)
    return {**staging.rows, "summary": f"{named.description} scored {total.summary}"}


def scores_name(name: str) -> str:
    """The name of the scores of a file, beside it: "day.scores.parquet" of "day.parquet"."""
    suffix = format_of(name)
    return f"{name[: -len(suffix)]}{SCORES}{suffix}"


def _files(rows: str) -> tuple[Store, list[str]]:
    """The store of the rows, and its file names.

    Raises:
        KfrecError: there are none.
    """
    if not rows.strip():
        raise KfrecError("parameter rows is empty; give a folder or prefix with files of rows, or one such file")
    if has_format(rows) and not Path(rows).is_dir():
        folder, _, name = rows.rpartition("/")
        store = open_store(folder or ("/" if rows.startswith("/") else "."))
        _RETRY.call(rows, store.stat, name)
        return store, [name]
    store = open_store(rows)
    listed = _RETRY.call(rows, store.names)
    if listed is None:
        raise KfrecError(f"{rows}: cannot be listed; name one file, such as {rows.rstrip('/')}/rows.parquet")
    names = [name for name in listed if has_format(name) and _is_input(name)]
    if not names:
        raise KfrecError(f"{rows}: holds no *.parquet, *.csv or *.jsonl; give a folder or prefix with files of rows")
    return store, names


def _is_input(name: str) -> bool:
    base = name.rpartition("/")[2]
    return not base.startswith((".", "_")) and not base[: -len(format_of(base))].endswith(SCORES)


def _require_replaceable(store: Store, names: list[str], model: RawModel, scratch: Path, received: Bounded) -> None:
    """Checks that existing score files beside the rows were written by kfrec.

    Raises:
        KfrecError: one was not.
    """
    scores = [scores_name(name) for name in names]
    remote = [name for name in scores if store.path(name) is None]
    there = frozenset(_RETRY.call(store.uri, store.names) or ()) if remote else frozenset()
    for name in scores:
        if path := store.path(name):
            require_ours(path, [], model.outputs)
        elif name in there:
            with _on_this_machine(store, name, scratch / Path(name).name, received) as (held, _):
                require_ours(held.path, [], model.outputs)


@contextmanager
def _on_this_machine(store: Store, name: str, scratch: Path, received: Bounded) -> Iterator[tuple[RowsFile, str]]:
    """The file, fetched if remote, and its version; errors name its source."""
    info = _RETRY.call(store.url(name), store.stat, name)
    path = store.path(name)
    if path is not None:
        yield rows_file(path), info.version
        return
    fetched = fetch_file(store, _RETRY, info, scratch, advance=received.advance)
    try:
        yield rows_file(scratch), fetched.version
    except KfrecError as error:
        raise KfrecError(str(error).replace(str(scratch), store.url(name))) from None
    finally:
        scratch.unlink(missing_ok=True)
