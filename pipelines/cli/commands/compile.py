"""``kfrec compile``: the pipelines as files for a cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from components import registry
from components.errors import KfrecError
from pipelines.cli.options import add_after, add_choices, add_registry, add_settings
from pipelines.defaults import CLUSTER_DEFAULTS, TRAINING, Pipeline, every_pipeline
from pipelines.parameters import checked

SUMMARY = "write the pipelines as KFP's IR YAML and as Kubernetes manifests"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", default="", metavar="NAME", help="only the pipelines of this model (default: all models)"
    )
    add_choices(parser)
    add_after(parser)
    parser.add_argument("--output", default="build", metavar="FOLDER", help="default %(default)s")
    add_settings(parser)
    add_registry(parser)


def execute(options: argparse.Namespace) -> int:
    from pipelines.chain import Chain, chain_of
    from pipelines.compilation import write_compiled
    from pipelines.task_settings import load_settings

    settings = load_settings(Path(options.settings) if options.settings else None, options.registry)
    if options.model:
        registry.model(options.model)
    elif options.dataset or options.task or options.after:
        raise KfrecError("--dataset, --task and --after need a --model; name the model whose pipelines to write")
    plain = [
        one._replace(dataset=options.dataset, task=options.task)
        for one in every_pipeline()
        if options.model in ("", one.model)
    ]
    for pipeline in plain:
        checked({}, pipeline, CLUSTER_DEFAULTS)
    pipelines: list[Pipeline | Chain] = [*plain]
    if options.after:
        pipelines = [chain_of(options.after, Pipeline(TRAINING, options.model, options.dataset, options.task))]
    for path in write_compiled(Path(options.output), settings, pipelines):
        print(path)
    return 0
