"""``kfrec compare``: two runs side by side."""

from __future__ import annotations

import argparse

from pipelines.cli.options import add_workdir, workdir_of

SUMMARY = "show what differs between two runs, and whether one is better by more than chance"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in ("first", "second"):
        parser.add_argument(name, metavar="RUN", help="its folder, its name in --workdir, or last")
    parser.add_argument("--all", action="store_true", help="also show what is the same")
    parser.add_argument("--json", action="store_true", help="write JSON")
    add_workdir(parser)


def execute(options: argparse.Namespace) -> int:
    from pipelines.runs.compare import compare
    from pipelines.runs.record import find_run

    workdir = workdir_of(options)
    comparison = compare(find_run(workdir, options.first), find_run(workdir, options.second))
    print(comparison.to_json() if options.json else comparison.to_text(options.all))
    return 0
