"""Where ``kfrec recommend`` reads the users' histories: raw files of events, or else records."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import KfrecError
from components.storage import is_uri
from pipelines.cli.options import output_of, published_output, workdir_of

if TYPE_CHECKING:
    from components.artifacts import Artifact
    from components.inference.history import People
    from components.inference.model import NamedModel
    from pipelines.runs.record import RunRecord

# Says in a line where histories are from. Takes users, None for all, and how errors end; returns these users with their
# histories.
Histories = Callable[..., "People"]


def add_histories(parser: argparse.ArgumentParser) -> None:
    """--events and --data; ``histories_for`` reads them."""
    parser.add_argument(
        "--events",
        action="append",
        metavar="FOLDER_OR_FILE",
        help="raw files with the users' events, in the form that the model was trained with; several files with an "
        "--events each (default: those of the model's run)",
    )
    parser.add_argument(
        "--data", default="", metavar="FOLDER", help="records with the newest part of the histories, instead of events"
    )


def histories_for(
    options: argparse.Namespace, named: NamedModel, run: RunRecord | None, opened: ExitStack
) -> tuple[Histories, Artifact | None]:
    """The histories that the options name, else the events of the model's run, else its records.

    Args:
        run: of the model, if it is known.
        opened: closed once the histories were read.

    Returns:
        The histories, and the raw files with the events; None for records.

    Raises:
        KfrecError: --events names no raw files, or the model's data set does not read any.
    """
    from components.artifacts import open_input
    from components.inference.events import events_in, reads_events
    from components.inference.history import histories_of

    able = reads_events(named.raw)
    if options.events:
        if options.data:
            raise KfrecError("--events and --data both name histories; give one of them")
        if not able:
            raise KfrecError(
                f"--events: {named.description} cannot read raw files of {named.raw.dataset}, which its training did "
                "not note how to read; train again, or give histories with --users"
            )
        raw = _given(options.events, named.raw.dataset, opened)
        return _saying(f"the events in {', '.join(options.events)}", partial(events_in, raw, named.raw)), raw
    raw_folder = _raw_of(options, run, options.data or named.data) if able and not options.data else None
    if raw_folder is not None:
        raw = open_input(raw_folder, steps=("download",))
        return _saying(f"the events in {raw_folder}", partial(events_in, raw, named.raw)), raw
    data = options.data or (published_output(run, "tfrecord", "tfrecord") if run else named.data)

    why = "" if options.data else "; the raw files are not known, --events names them"
    said = f"the records in {data}, the newest items of the users that preprocessing kept{why}"
    return _saying(said, lambda users, *remedy: histories_of(users, data, *remedy)), None


def _saying(source: str, read: Histories) -> Histories:
    def of(users: Sequence[str] | None, *remedy: str) -> People:
        print(f"histories are from {source}", flush=True)
        return read(users, *remedy)

    return of


def _given(named: Sequence[str], dataset: str, opened: ExitStack) -> Artifact:
    """The raw files that --events names, fetched if they are remote."""
    from components.artifacts import open_artifact
    from components.download.step import run as download
    from components.inference.events import raw_files
    from components.steps.catalog import STEPS

    if not all(each.strip() for each in named):
        raise KfrecError("--events is empty; name a folder or a file (is a shell variable unset?)")
    folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="kfrec-events-")))
    if not is_uri(named[0]):
        return raw_files(named, folder)
    if len(named) > 1:
        raise KfrecError(f"--events {named[0]}: give one folder or prefix in object storage")
    download(STEPS["download"].of(dataset=dataset, source=named[0]), raw=folder / "raw")
    return open_artifact(folder / "raw")


def _raw_of(options: argparse.Namespace, run: RunRecord | None, data: str) -> Path | None:
    """The raw files of the model's run, or of the run of --workdir that wrote the model's records; None if gone."""
    from pipelines.runs.record import every_run

    workdir = workdir_of(options)
    runs = [run] if run else every_run(workdir, lambda error: None) if data and workdir.is_dir() else []
    for each in runs:
        has_both = {"download", "tfrecord"} <= each.steps.keys()
        if has_both and (run or data in [of(each, "tfrecord", "tfrecord") for of in (output_of, published_output)]):
            folder = Path(output_of(each, "download", "raw"))
            return folder if folder.is_dir() else None
    return None
