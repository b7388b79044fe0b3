"""``kfrec reproduce``: repeats a run and compares the files."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipelines.cli.options import add_tracked_workdir, use_store_of, workdir_of

SUMMARY = "run a run again and compare every artifact and metric"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("summary", metavar="FILE", help="summary.json of the run")
    add_tracked_workdir(parser)


def execute(options: argparse.Namespace) -> int:
    """0 if everything is the same, else 1."""
    from pipelines.runs.reproduce import reproduce

    use_store_of(options)
    findings = reproduce(Path(options.summary), workdir_of(options))
    for finding in findings:
        print(finding)
    return 0 if all(finding.is_same for finding in findings) else 1
