"""``kfrec doctor``: missing prerequisites of this machine or a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from components.errors import KfrecError
from pipelines.cli.options import add_endpoint, add_settings, add_workdir, workdir_of

SUMMARY = "check this machine, or a cluster, for missing prerequisites"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_workdir(parser)
    parser.add_argument("--cluster", action="store_true", help="check a cluster; the other options are for this")
    parser.add_argument("--pipeline-root", default="", metavar="URI", help="where artifacts go (default: KFP's)")
    parser.add_argument(
        "--service-account",
        default="",
        metavar="NAME",
        help="account of the steps whose rights are checked (default: yours)",
    )
    add_endpoint(parser)
    add_settings(parser)


def execute(options: argparse.Namespace) -> int:
    if not options.cluster:
        from pipelines.doctor.machine import examine_machine

        return examine_machine(workdir_of(options), options.debug)
    try:
        from pipelines.doctor.cluster import examine_cluster
    except ModuleNotFoundError as error:
        if error.name != "kubernetes":
            raise
        raise KfrecError(
            "kfrec doctor --cluster needs the package kubernetes; install kfrec with the extra kubernetes"
        ) from None
    from pipelines.task_settings import load_settings

    settings = load_settings(Path(options.settings) if options.settings else None)
    return examine_cluster(
        settings,
        options.debug,
        endpoint=options.endpoint,
        namespace=options.namespace,
        root=options.pipeline_root,
        account=options.service_account,
    )
