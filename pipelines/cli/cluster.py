"""Commands for a cluster: ``kfrec compile`` writes the pipelines for it, ``kfrec submit`` runs one."""

from __future__ import annotations

import argparse
import math
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from components import registry
from components.crash import describe_exception
from components.errors import KfrecError
from components.secrets import without_password
from pipelines.cli.options import (
    PARAMETERS_LISTED,
    Command,
    add_after,
    add_choices,
    add_endpoint,
    add_nights,
    add_pipeline,
    add_registry,
    add_set,
    add_settings,
    add_size,
    pipeline_of,
)
from pipelines.defaults import INCREMENTAL, RETRAINING, TRAINING, Pipeline, cluster_defaults, every_pipeline
from pipelines.parameters import checked, parse_assignment

if TYPE_CHECKING:
    from kfp import Client


def _compile_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", default="", metavar="NAME", help="only the pipelines of this model (default: all models)"
    )
    add_choices(parser)
    add_after(parser)
    parser.add_argument("--output", default="build", metavar="FOLDER", help="default %(default)s")
    add_settings(parser)
    add_size(parser)
    add_registry(parser)


def _compile(options: argparse.Namespace) -> int:
    from pipelines.chain import Chain, chain_of
    from pipelines.compilation import write_compiled
    from pipelines.task_settings import load_settings

    settings = load_settings(Path(options.settings) if options.settings else None, options.registry, options.size)
    if options.model:
        registry.model(options.model)
    elif options.dataset or options.task or options.after:
        raise KfrecError("--dataset, --task and --after need a --model; name the model whose pipelines to write")
    plain = [
        one._replace(dataset=options.dataset or one.dataset, task=options.task)
        for one in every_pipeline()
        if options.model in ("", one.model) and one.kind != INCREMENTAL
    ]
    plain += [one for each in plain if (one := each.of_kind(INCREMENTAL)).grows and each.kind == RETRAINING]
    for pipeline in plain:
        checked({}, pipeline, cluster_defaults(pipeline, options.size))
    pipelines: list[Pipeline | Chain] = [*plain]
    if options.after:
        pipelines = [chain_of(options.after, Pipeline(TRAINING, options.model, options.dataset, options.task))]
    for path in write_compiled(Path(options.output), settings, pipelines):
        print(path)
    try:
        settings.require_images(dict.fromkeys(step for pipeline in plain for step in pipeline.steps))
    except KfrecError as error:
        # The images may lie on the nodes already.
        print(f"note: {error}", file=sys.stderr)
    return 0


def _submit_arguments(parser: argparse.ArgumentParser) -> None:
    add_pipeline(parser)
    add_set(parser)
    add_after(parser)
    add_nights(parser)
    parser.add_argument("--experiment", default="kfrec", help="KFP experiment (default %(default)s)")
    name = parser.add_mutually_exclusive_group()
    name.add_argument("--run-name", default="", metavar="NAME", help="name of the run (default: pipeline and time)")
    name.add_argument("--schedule", default="", metavar="NAME", help="name the run after a schedule and the time")
    parser.add_argument(
        "--unless-running",
        action="store_true",
        help="start nothing while a run of this pipeline (and of --schedule, if given) has not ended",
    )
    parser.add_argument(
        "--pipeline-root", default="", metavar="URI", help="where artifacts go (default: the cluster's)"
    )
    parser.add_argument("--service-account", default="", metavar="NAME", help="runs the steps (default: the cluster's)")
    parser.add_argument("--no-cache", action="store_true", help="do not reuse outputs of earlier runs")
    parser.add_argument("--wait", action="store_true", help="follow the run; exit with 1 if it fails")
    parser.add_argument(
        "--timeout", type=float, default=172_800, metavar="S", help="timeout of --wait (default %(default)s s)"
    )
    parser.add_argument("--pause", type=float, default=5, metavar="S", help="between two polls (default %(default)s s)")
    add_endpoint(parser)
    add_settings(parser)
    add_size(parser)
    add_registry(parser)


def _check(options: argparse.Namespace) -> None:
    """Rejects options that KFP would take, and that would fail after the run has started."""
    for name, longest in (("timeout", math.inf), ("pause", threading.TIMEOUT_MAX)):
        if not 0 < (seconds := getattr(options, name)) <= longest:
            raise KfrecError(f"--{name} {seconds:g} is not a number of seconds above 0; correct it")
    root = options.pipeline_root
    if root and not root.startswith(("gs://", "s3://", "minio://")):
        raise KfrecError(f"--pipeline-root {root}: cannot hold artifacts; give gs://, s3:// or minio://")
    if without_password(root) != root:
        raise KfrecError(f"--pipeline-root {root}: KFP keeps it and shows it, passwords too; leave the password out")


def _submit(options: argparse.Namespace) -> int:
    from pipelines.chain import chain_of
    from pipelines.cluster.connection import connect, host_of
    from pipelines.cluster.submit import (
        Submission,
        checked_for_cluster,
        require_task_on_server,
        submit,
        unfinished,
    )
    from pipelines.compilation import compiled
    from pipelines.nights import nights
    from pipelines.task_settings import load_settings

    _check(options)
    is_backfill = options.first is not None or options.last is not None
    if is_backfill and not options.wait:
        raise KfrecError("--from and --until start a run once the one before has ended; give --wait, too")
    settings = load_settings(Path(options.settings) if options.settings else None, options.registry, options.size)
    if options.no_cache:
        settings = settings.without_cache()
    trained = pipeline_of(options)
    pipeline = chain_of(options.after, trained) if options.after else trained
    given = dict(parse_assignment(text) for text in options.set)
    every = [
        checked_for_cluster(values, pipeline, options.size)
        for values in nights(trained, given, options.first, options.last)
    ]
    require_task_on_server(every[0], pipeline)
    settings.require_images(trained.steps)
    host = host_of(options.endpoint)
    client = connect(options.endpoint, options.namespace)
    ir = compiled(pipeline, settings)
    if options.unless_running and (running := unfinished(client, host, ir, options.schedule)):
        print(f"not started: {running}")
        return 0
    for values in every:
        wanted = Submission(
            ir=ir,
            pipeline=pipeline,
            values=values,
            experiment=options.experiment,
            name=options.run_name,
            schedule=options.schedule,
            pipeline_root=options.pipeline_root,
            service_account=options.service_account,
        )
        run_id = submit(client, host, wanted)
        if options.wait and (status := _followed(client, host, run_id, ir, options)):
            return status
    return 0


def _followed(client: Client, host: str, run_id: str, ir: str, options: argparse.Namespace) -> int:
    """The status of a run that has ended.

    Raises:
        KfrecError: it cannot be followed.
    """
    from pipelines.cluster.progress import follow, steps_of

    try:
        return follow(client, host, run_id, steps_of(ir), options.timeout, options.pause)
    except KfrecError as error:
        if run_id in str(error):
            raise
        raise KfrecError(f"{error}; this ends the waiting, not the run: {host}/#/runs/details/{run_id}") from None
    except Exception as error:  # a status of 1 would say that the run has failed
        raise KfrecError(
            f"cannot follow the run, which continues at {host}/#/runs/details/{run_id}: {describe_exception(error)}"
        ) from error


COMMANDS = {
    "compile": Command(
        "write the pipelines as KFP's IR YAML and as Kubernetes manifests", _compile_arguments, _compile
    ),
    "submit": Command("run a pipeline on a cluster", _submit_arguments, _submit, PARAMETERS_LISTED),
}
