"""``kfrec schedule apply``: reconciles the cluster's recurring runs with a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipelines.cli.options import add_endpoint, add_settings

SUMMARY = "reconcile the cluster's recurring runs with a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    apply = actions.add_parser("apply", help="create, change, pause, resume and delete recurring runs as needed")
    apply.add_argument("-f", "--file", required=True, metavar="FILE", help="schedules.yaml")
    apply.add_argument("--dry-run", action="store_true", help="only show what would change")
    apply.add_argument("--prune", action="store_true", help="delete kfrec's schedules that the file does not name")
    add_endpoint(apply)
    add_settings(apply)


def execute(options: argparse.Namespace) -> int:
    from pipelines.cluster.connection import connect, host_of
    from pipelines.cluster.reconcile import Reconciler
    from pipelines.cluster.schedules import load_schedules
    from pipelines.compilation import compiled
    from pipelines.task_settings import load_settings

    file = load_schedules(Path(options.file))
    settings = load_settings(Path(options.settings) if options.settings else None, options.registry)
    host = host_of(options.endpoint)
    client = connect(options.endpoint, options.namespace or file.namespace)
    Reconciler(
        client, host, lambda pipeline: compiled(pipeline, settings), dry_run=options.dry_run, prune=options.prune
    ).apply(file)
    return 0
