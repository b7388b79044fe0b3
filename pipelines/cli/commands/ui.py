"""``kfrec ui``: MLflow on the runs of a folder."""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from components.errors import KfrecError
from components.private import SAFE_PATH
from components.secrets import without_password
from pipelines.cli.options import WORKDIR, add_tracked_workdir, use_store_of
from pipelines.ports import UI_PORT, require_free

SUMMARY = "show the runs in MLflow"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=UI_PORT, help="default %(default)s")
    parser.add_argument("--print-only", action="store_true", help="only print the command, do not start the server")
    add_tracked_workdir(parser)


def execute(options: argparse.Namespace) -> int:
    from components.tracking import tracking_uri
    from components.tracking.store import prepare
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
