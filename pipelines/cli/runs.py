"""Commands about the runs of a folder: ``kfrec runs``, ``compare``, ``reproduce``, ``stop`` and ``ui``."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import components
from components.errors import KfrecError
from components.private import SAFE_PATH
from components.secrets import without_password
from pipelines.cli.options import (
    UI_PORT,
    WORKDIR,
    Command,
    add_tracked_workdir,
    add_workdir,
    require_free,
    use_store_of,
    workdir_of,
)

# What a run has finished that made nothing of its data.
_BEFORE_DATA = {"find", "download"}


def _runs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also show those that failed before they read the data")
    parser.add_argument("--json", action="store_true", help="write JSON, of all runs")
    add_workdir(parser)


def _runs(options: argparse.Namespace) -> int:
    from pipelines.runs.compare import listed, table
    from pipelines.runs.record import FAILED, every_run
    from pipelines.runs.registered import aliases

    damaged: list[KfrecError] = []
    found = every_run(workdir_of(options), damaged.append)
    now = aliases(found)
    # Of wrong paths and names only the last one, which is being corrected.
    early = [run.state_now() == FAILED and set(run.steps) <= _BEFORE_DATA and run is not found[-1] for run in found]
    shows_all = options.all or options.json
    runs = [listed(run, now) for run, is_early in zip(found, early, strict=True) if shows_all or not is_early]
    print(json.dumps(runs, indent=2) if options.json else table(runs))
    if any(early) and not shows_all:
        print(f"{sum(early)} that failed before they read the data are left out; --all shows them")
    for error in damaged:
        print(f"error: {error}", file=sys.stderr)
    return 2 if damaged else 0


def _compare_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("first", "second"):
        parser.add_argument(name, metavar="RUN", help="its folder, its name in --workdir, or last")
    parser.add_argument("--all", action="store_true", help="also show all values, those that differ first")
    parser.add_argument("--json", action="store_true", help="write JSON")
    add_workdir(parser)


def _compare(options: argparse.Namespace) -> int:
    from pipelines.runs.compare import compare
    from pipelines.runs.record import find_run

    workdir = workdir_of(options)
    comparison = compare(find_run(workdir, options.first), find_run(workdir, options.second))
    print(comparison.to_json() if options.json else comparison.to_text(options.all))
    return 0


def _reproduce_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("summary", metavar="FILE", help="summary.json of the run")
    add_tracked_workdir(parser)


def _reproduce(options: argparse.Namespace) -> int:
    """0 if everything is the same, else 1."""
    from pipelines.runs.record import read_summary
    from pipelines.runs.reproduce import reproduce

    use_store_of(options)
    findings = reproduce(Path(options.summary), workdir_of(options))
    for finding in findings:
        print(finding)
    if refit := read_summary(Path(options.summary)).get("refit"):
        published = f"the run published version {refit['version']}: {refit['reason']}"
        print(f"repeated is the judged model, not its refit; {published}")
    return 0 if all(finding.is_same for finding in findings) else 1


def _stop_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="RUN", help="its folder, its name in --workdir, or last; of an MPIJob the URI of its model"
    )
    add_workdir(parser)


def _stop(options: argparse.Namespace) -> int:
    from components.storage import below, is_uri
    from components.train.loop.stopping import request_stop
    from components.train.results import CHECKPOINT
    from pipelines.runs.earlier import checkpoints_in_use
    from pipelines.runs.record import find_run

    if is_uri(options.run):
        request_stop(below(options.run, CHECKPOINT))
    else:
        request_stop(str(checkpoints_in_use(find_run(workdir_of(options), options.run))))
    print("the training ends at its next look at the losses; its best epoch is kept, and the run goes on")
    return 0


def _ui_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=UI_PORT, help="default %(default)s")
    parser.add_argument("--print-only", action="store_true", help="only print the command, do not start the server")
    add_tracked_workdir(parser)


def _ui(options: argparse.Namespace) -> int:
    from components.tracking.page import TOKEN
    from components.tracking.store import prepare, tracking_uri
    from pipelines.runs.lifecycle import database_uri

    use_store_of(options)
    uri = tracking_uri() if os.environ.get("MLFLOW_TRACKING_URI") else database_uri(Path(WORKDIR))
    if uri.startswith("http"):
        print(f"runs are kept by the MLflow server at {without_password(uri)}")
        return 0
    database = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not database.is_file():
        raise KfrecError(f"{database}: no runs here yet; start one with kfrec run, or give --workdir FOLDER")
    require_free(options.port, free=not options.print_only)
    # uvicorn imports from the working directory unless it is given a folder. One worker serves one viewer; mlflow's
    # default is four.
    folder = Path(components.__file__).parents[1]
    command = ["mlflow", "ui", "--port", str(options.port), "--workers", "1", "--app-name", "kfrec"]
    command += ["--uvicorn-opts", shlex.join(["--app-dir", str(folder)])]
    token = secrets.token_urlsafe()
    # Not among the arguments, which anybody sees: the token, and a password that the store's address may have.
    environment = {"MLFLOW_BACKEND_STORE_URI": uri, TOKEN: token}
    shown = " ".join(f"{name}={without_password(value)}" for name, value in environment.items())
    page = f"http://localhost:{options.port}/?token={token}{_runs_page(database)}"
    print(f"{page}   (stop with Ctrl-C; the link is for you alone)\n{shown} {shlex.join(command)}", flush=True)
    if not options.print_only:
        os.environ["MLFLOW_TRACKING_URI"] = uri
        prepare()
        # Job execution serves the evaluation of language models: eight idle processes.
        quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        os.execve(Path(sys.executable).with_name("mlflow"), command, quiet | os.environ | SAFE_PATH | environment)
    return 0


def _runs_page(database: Path) -> str:
    """The page with the runs of the experiment that the newest run is in; MLflow's own first page shows none."""
    newest = "SELECT experiment_id FROM runs ORDER BY start_time DESC LIMIT 1"
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as store:
            found = store.execute(newest).fetchone()
    except sqlite3.Error:  # no database of SQLite, or one without tables yet
        return ""
    return f"#/experiments/{found[0]}/runs?workflowType=machine_learning" if found else ""


COMMANDS = {
    "compare": Command(
        "show what differs between two runs, and whether one is better by more than chance",
        _compare_arguments,
        _compare,
    ),
    "reproduce": Command("run a run again and compare every artifact and metric", _reproduce_arguments, _reproduce),
    "runs": Command("list the runs on this machine", _runs_arguments, _runs),
    "stop": Command("end the training of a run now, and go on with its best epoch", _stop_arguments, _stop),
    "ui": Command("show the runs in MLflow", _ui_arguments, _ui),
}
