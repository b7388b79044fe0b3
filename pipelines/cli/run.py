"""Commands that train on this machine: ``kfrec run`` and ``kfrec sweep``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from components import registry
from components.errors import KfrecError
from components.secrets import without_password
from pipelines.cli.options import (
    PARAMETERS_LISTED,
    Command,
    add_after,
    add_nights,
    add_pipeline,
    add_registry,
    add_set,
    add_tracked_workdir,
    output_of,
    pipeline_of,
    run_of_model,
    use_store_of,
    workdir_of,
)
from pipelines.defaults import Pipeline
from pipelines.parameters import parse_assignment

# Parameters that may name the run of an earlier model: for its weights, or for its vocabulary alone.
_WEIGHTS, _VOCABULARY = ("warm_start_path", "continue_path"), "workflow"


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    add_pipeline(parser)
    parser.add_argument(
        "--source", metavar="WHERE", help="folder, http(s)://, gs:// or s3:// prefix, or synthetic (default)"
    )
    add_set(parser)
    add_after(parser)
    add_nights(parser)
    parser.add_argument("--workers", metavar="N", help="Horovod processes that train together (default 1)")
    parser.add_argument(
        "--resume",
        metavar="RUN",
        help="resume a run that failed or was stopped: its folder, its name in --workdir, or last; --set changes "
        "parameters",
    )
    add_tracked_workdir(parser)


def _run(options: argparse.Namespace) -> int:
    from pipelines.local import resume, run
    from pipelines.nights import nights

    values = dict(parse_assignment(text) for text in options.set)
    for name in ("source", "workers"):
        if (given := getattr(options, name)) is not None:
            _require_one_value(name, given, values.get(name, given))
            values[name] = given
    use_store_of(options)
    pipeline = pipeline_of(options)
    other = "--after" if options.after else "--resume" if options.resume is not None else ""
    if other and (options.first or options.last):
        raise KfrecError(
            f"--from and --until start a run for each data version, which {other} does not; leave them out"
        )
    every = nights(pipeline, values, options.first, options.last)
    if options.after:
        summary = _chained(options, values)
    elif options.resume is None:
        for night in every:
            summary = run(pipeline, _with_models(options, night), workdir_of(options))
    else:
        summary = resume(_resumed(options), values)
    if summary is not None:
        print(summary)
    return 0


def _with_models(options: argparse.Namespace, values: dict[str, Any]) -> dict[str, Any]:
    """The values with the models of the runs that they name, see ``run_of_model``.

    A model that needs the vocabulary of the one whose weights it starts from, and parameters such as sizes, takes them
    from that run unless ``values`` has others. A folder of published weights is imported into the working directory.

    Raises:
        KfrecError: a run has no model.
    """
    from components.text.published import digest_of, import_published, is_published

    inherited = registry.model(pipeline_of(options).model).inherited
    for name in (*_WEIGHTS, _VOCABULARY):
        if inherited and name in _WEIGHTS and values.get(name) and is_published(Path(values[name])):
            folder = Path(values[name])
            # Another model of the same name, or newer weights in the folder, is another import.
            imported = workdir_of(options) / "imported" / f"{folder.resolve().name}-{digest_of(folder)}"
            sizes = import_published(folder, imported)
            sizes = {each: value for each, value in sizes.items() if each in inherited}
            values = {_VOCABULARY: str(imported)} | sizes | values | {name: str(imported)}
            continue
        earlier = run_of_model(options, values[name]) if values.get(name) else None
        if earlier is None:
            continue
        model = output_of(earlier, "train", "model")
        values = values | {name: model}
        if inherited and name in _WEIGHTS:
            sizes = {each: earlier.parameters[each] for each in inherited if each in earlier.parameters}
            values = {_VOCABULARY: model} | sizes | values
    return values


def _require_one_value(name: str, given: str, also_set: str) -> None:
    """Refuses an option and a --set of the same parameter whose values differ.

    Raises:
        KfrecError: they do.
    """
    if given != also_set:
        values = f"--{name} {without_password(given)} contradicts --set {name}={without_password(also_set)}"
        raise KfrecError(f"{values}; leave one of them out")


def _chained(options: argparse.Namespace, values: dict[str, Any]) -> Path | None:
    """Runs two trainings, of which the second needs the first one's model.

    Raises:
        KfrecError: --resume is given, or see ``pipelines.chain.chain_of`` and ``pipelines.local.run``.
    """
    from pipelines.chain import chain_of, divided
    from pipelines.local import arguments_of, run
    from pipelines.runs.record import read_record

    if options.resume is not None:
        raise KfrecError("--after starts two runs, and --resume continues one; give one of them")
    workdir = workdir_of(options)
    chain = chain_of(options.after, pipeline_of(options))
    first, second = divided(chain, values)
    arguments_of(chain.second, second, workdir)  # reports what is wrong with it before the first training
    summary = run(chain.first, first, workdir)
    assert summary is not None
    print(summary)
    record = read_record(summary.parent)
    (model,) = record.steps["train"]["outputs"].values()
    return run(chain.second, second | chain.linking(model, record.parameters), workdir)


def _resumed(options: argparse.Namespace) -> Path:
    """The folder of the run to resume.

    Raises:
        KfrecError: there is no such run, or the options name another pipeline or tracking server than it has.
    """
    from pipelines.runs.record import find_run

    run = find_run(workdir_of(options), options.resume)
    usual = Pipeline()._asdict()
    for name, value in pipeline_of(options)._asdict().items():
        theirs = getattr(run.pipeline, name)
        if value not in (usual[name], theirs):
            option = {"kind": "pipeline"}.get(name, name)
            raise KfrecError(
                f"--{option} {value}: the run {run.name} has {theirs or 'none'}, which --resume cannot change; leave "
                "it out, or start a new run"
            )
    if options.tracking_uri and without_password(options.tracking_uri) != run.tracking_uri:
        raise KfrecError(
            f"--tracking-uri {without_password(options.tracking_uri)}: the run {run.name} is kept at "
            f"{run.tracking_uri}, which --resume cannot change; leave it out"
        )
    return run.folder


def _sweep_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="YAML with model, search and budget")
    parser.add_argument(
        "--minutes", type=float, metavar="N", help="begin no trial after so many minutes (default: no limit)"
    )
    parser.add_argument("--katib", action="store_true", help="only write a Katib Experiment for a cluster")
    add_registry(parser)
    parser.add_argument(
        "--data", metavar="RUN", help="reuse the data of this run where the sweep would prepare the same"
    )
    add_tracked_workdir(parser)


def _sweep(options: argparse.Namespace) -> int:
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
    best = sweep(plan, path, workdir, data, options.minutes)
    scores = f"validation {plan.metric.label} {best.score:.4f}, test {plan.primary.label} {best.test:.4f}"
    print(f"best     trial {best.trial}, {scores}")
    for remark in best.remarks:
        print(f"note     {remark}")
    print(f"model    {best.model}\nrun it   {best.command}")
    return 0


COMMANDS = {
    "run": Command("run a pipeline on this machine", _run_arguments, _run, PARAMETERS_LISTED),
    "sweep": Command("search for the parameters that train the best model", _sweep_arguments, _sweep),
}
