"""``kfrec runs``: the runs of a folder."""

from __future__ import annotations

import argparse
import json
import sys

from components.errors import KfrecError
from pipelines.cli.options import add_workdir, workdir_of

SUMMARY = "list the runs on this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="write JSON")
    add_workdir(parser)


def execute(options: argparse.Namespace) -> int:
    from pipelines.runs.listing import listed, table
    from pipelines.runs.record import every_run

    damaged: list[KfrecError] = []
    runs = [listed(run) for run in every_run(workdir_of(options), damaged.append)]
    print(json.dumps(runs, indent=2) if options.json else table(runs))
    for error in damaged:
        print(f"error: {error}", file=sys.stderr)
    return 2 if damaged else 0
