"""``kfrec run``: a pipeline on this machine."""

from __future__ import annotations

import argparse

from pipelines.cli.options import (
    PARAMETERS_LISTED,
    add_pipeline,
    add_set,
    add_tracked_workdir,
    pipeline_of,
    use_store_of,
    workdir_of,
)
from pipelines.defaults import RETRAINING, TRAINING
from pipelines.parameters import parse_assignment

SUMMARY = "run a pipeline on this machine"
EPILOG = PARAMETERS_LISTED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pipeline(parser)
    parser.add_argument(
        "--source", metavar="WHERE", help="folder, http(s)://, gs:// or s3:// prefix, or synthetic (default)"
    )
    add_set(parser)
    parser.add_argument("--workers", metavar="N", help="Horovod processes that train together (default 1)")
    add_tracked_workdir(parser)


def execute(options: argparse.Namespace) -> int:
    from pipelines.local import run, run_retraining

    values = dict(parse_assignment(text) for text in options.set)
    if options.source is not None:
        values["source"] = options.source
    if options.workers is not None:
        values["workers"] = options.workers
    use_store_of(options)
    start = {TRAINING: run, RETRAINING: run_retraining}[options.pipeline]
    summary = start(pipeline_of(options), values, workdir_of(options))
    if summary is not None:
        print(summary)
    return 0
