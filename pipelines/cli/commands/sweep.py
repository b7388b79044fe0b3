"""``kfrec sweep``: a hyperparameter search."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipelines.cli.options import add_registry, add_tracked_workdir, use_store_of, workdir_of

SUMMARY = "search for the parameters that train the best model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="YAML with model, search and budget")
    parser.add_argument("--katib", action="store_true", help="only write a Katib Experiment for a cluster")
    add_registry(parser)
    parser.add_argument(
        "--data", metavar="RUN", help="reuse the data of this run where the sweep would prepare the same"
    )
    add_tracked_workdir(parser)


def execute(options: argparse.Namespace) -> int:
    from pipelines.sweep.plan import load_plan

    path = Path(options.file)
    plan = load_plan(path)
    if options.katib:
        import yaml

        from pipelines.sweep.katib import experiment

        print(yaml.safe_dump(experiment(plan, path, options.registry), sort_keys=False), end="")
        return 0
    from pipelines.runs.record import find_run
    from pipelines.sweep.local import sweep

    use_store_of(options)
    workdir = workdir_of(options)
    data = find_run(workdir, options.data) if options.data is not None else None
    best = sweep(plan, path, workdir, data)
    scores = f"validation {plan.metric.label} {best.score:.4f}, test {plan.primary.label} {best.test:.4f}"
    print(f"best     trial {best.trial}, {scores}")
    print(f"model    {best.model}\nrun it   {best.command}")
    return 0
