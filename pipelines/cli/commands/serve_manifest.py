"""``kfrec serve-manifest``: a KServe InferenceService for a registered model."""

from __future__ import annotations

import argparse

from pipelines.cli.options import add_registry, add_tracked_workdir, use_store_of

SUMMARY = "write a KServe InferenceService for a registered model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="name@alias or name/version; an alias becomes its version now")
    parser.add_argument("--name", default="kfrec", help="of the InferenceService (default %(default)s)")
    add_registry(parser)
    add_tracked_workdir(parser)


def execute(options: argparse.Namespace) -> int:
    from components.predict.model import version_of
    from pipelines.serving import rendered

    use_store_of(options)
    held = version_of(options.model)
    print(rendered(held.name, str(held.version), options.name, options.registry), end="")
    return 0
