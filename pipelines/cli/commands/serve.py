"""``kfrec serve``: MLflow's scoring server with a registered model, on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from components.errors import KfrecError
from components.private import SAFE_PATH
from pipelines.cli.options import add_tracked_workdir, run_of_model, use_store_of
from pipelines.ports import SERVE_PORT, require_free

SUMMARY = "serve a registered model on this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="name@alias or name/version of a registered model, a run of --workdir or last"
    )
    parser.add_argument("--port", type=int, default=SERVE_PORT, help="default %(default)s")
    parser.add_argument("--print-only", action="store_true", help="only print the command, do not start the server")
    add_tracked_workdir(parser)


def execute(options: argparse.Namespace) -> int:
    from components.predict.model import version_of
    from components.tracking.store import tracking_uri

    use_store_of(options)
    run = run_of_model(options, options.model)
    named = options.model
    if run is not None:
        registered = run.summary().get("registered")
        if not registered:
            raise KfrecError(f"run {run.name} ({run.state_now()}) has registered no model; see kfrec runs")
        named = f"{registered['model']}/{registered['version']}"
    held = version_of(named)
    require_free(options.port, free=not options.print_only)
    command = ["mlflow", "models", "serve", "--model-uri", f"models:/{held.name}/{held.version}"]
    command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(options.port)]
    print(
        f"{held.name} version {held.version} at http://127.0.0.1:{options.port}/invocations   "
        f"(stop with Ctrl-C; every user of this machine can call it)\n{' '.join(command)}",
        flush=True,
    )
    if not options.print_only:
        here = Path(sys.executable).parent
        # mlflow looks for uvicorn on the path.
        path = os.pathsep.join((str(here), os.environ.get("PATH", os.defpath)))
        os.execve(
            here / "mlflow", command, os.environ | SAFE_PATH | {"MLFLOW_TRACKING_URI": tracking_uri(), "PATH": path}
        )
    return 0
