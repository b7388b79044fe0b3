"""Commands about the runs of a folder: ``kfrec runs``, ``compare``, ``reproduce`` and ``ui``."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

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


def _runs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="write JSON")
    add_workdir(parser)


def _runs(options: argparse.Namespace) -> int:
    from pipelines.runs.compare import listed, table
    from pipelines.runs.record import every_run

    damaged: list[KfrecError] = []
    runs = [listed(run) for run in every_run(workdir_of(options), damaged.append)]
    print(json.dumps(runs, indent=2) if options.json else table(runs))
    for error in damaged:
        print(f"error: {error}", file=sys.stderr)
    return 2 if damaged else 0


def _compare_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("first", "second"):
        parser.add_argument(name, metavar="RUN", help="its folder, its name in --workdir, or last")
    parser.add_argument("--all", action="store_true", help="also show what is the same")
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
    from pipelines.runs.reproduce import reproduce

    use_store_of(options)
    findings = reproduce(Path(options.summary), workdir_of(options))
    for finding in findings:
        print(finding)
    return 0 if all(finding.is_same for finding in findings) else 1


def _ui_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=UI_PORT, help="default %(default)s")
    parser.add_argument("--print-only", action="store_true", help="only print the command, do not start the server")
    add_tracked_workdir(parser)


def _ui(options: argparse.Namespace) -> int:
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
    # One worker serves one viewer; mlflow's default is four.
    command = ["mlflow", "ui", "--port", str(options.port), "--workers", "1"]
    store = {"MLFLOW_BACKEND_STORE_URI": uri}  # may have a password, and anybody sees the arguments of a program
    shown = f"MLFLOW_BACKEND_STORE_URI={without_password(uri)} {' '.join(command)}"
    page = f"http://localhost:{options.port}{_runs_page(database)}"
    print(f"{page}   (stop with Ctrl-C; every user of this machine can open it)\n{shown}", flush=True)
    if not options.print_only:
        os.environ["MLFLOW_TRACKING_URI"] = uri
        prepare()
        # Job execution serves the evaluation of language models: eight idle processes.
        environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"} | os.environ | SAFE_PATH | store
        os.execve(Path(sys.executable).with_name("mlflow"), command, environment)
    return 0


def _runs_page(database: Path) -> str:
    """The page with the runs of the experiment that the newest run is in; MLflow's own first page shows none."""
    newest = "SELECT experiment_id FROM runs ORDER BY start_time DESC LIMIT 1"
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as store:
            found = store.execute(newest).fetchone()
    except sqlite3.Error:  # no database of SQLite, or one without tables yet
        return ""
    return f"/#/experiments/{found[0]}/runs?workflowType=machine_learning" if found else ""


COMMANDS = {
    "compare": Command(
        "show what differs between two runs, and whether one is better by more than chance",
        _compare_arguments,
        _compare,
    ),
    "reproduce": Command("run a run again and compare every artifact and metric", _reproduce_arguments, _reproduce),
    "runs": Command("list the runs on this machine", _runs_arguments, _runs),
    "ui": Command("show the runs in MLflow", _ui_arguments, _ui),
}
