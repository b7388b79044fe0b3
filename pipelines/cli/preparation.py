"""Commands before a run: ``kfrec completion``, ``doctor``, ``init-schema``, ``models`` and ``parameters``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from components import registry
from components.errors import KfrecError
from components.secrets import without_password
from components.steps.catalog import STEPS
from components.tracking.store import tracking_uri
from components.workflows.partitions import is_partition
from pipelines.cli.options import (
    WORKDIR,
    Command,
    add_after,
    add_endpoint,
    add_pipeline,
    add_set,
    add_settings,
    add_tracked_workdir,
    add_workdir,
    pipeline_of,
    use_store_of,
    workdir_of,
)
from pipelines.defaults import SIZES, TRAINING, Pipeline, cluster_defaults, whose_defaults
from pipelines.parameters import checked, parse_assignment, pipeline_parameters, step_parameters

# Options whose values are names in the registry.
_NAMES = {"--model": registry.MODELS, "--dataset": registry.DATASETS, "--task": registry.TASKS}


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
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


def _doctor(options: argparse.Namespace) -> int:
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


def _schema_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a CSV or parquet file")
    parser.add_argument("--label", default="", metavar="COLUMN", help="column to predict (default: guessed)")
    parser.add_argument(
        "--output", metavar="FILE", help="schema to write (default schema.yaml beside the table; - is the terminal)"
    )
    parser.add_argument("--dataset", default="", metavar="NAME", help="data set (default: the first that has schemas)")


def _init_schema(options: argparse.Namespace) -> int:
    path = Path(options.file)
    if path.is_dir():
        raise KfrecError(f"{path}: is a folder; name one of the tables in it")
    if not path.is_file():
        raise KfrecError(f"{options.file or 'FILE'}: no such file; check the path")
    target = Path(options.output) if options.output else _folder_of(path) / "schema.yaml"
    if options.output != "-" and target.exists():
        raise KfrecError(f"{target}: exists and is not overwritten; name another file with --output")
    name, schema = _with_schemas(options.dataset)
    text = schema(path, options.label)
    if options.output == "-":
        sys.stdout.write(text)
        return 0
    target.write_text(text)
    models = [each for each in registry.names(registry.MODELS) if registry.model(each).dataset == name]
    own = f"--model {models[0]}" if models else f"--model NAME --dataset {name}"
    print(f"{target}: read and correct it, then kfrec run {own} --source {_folder_of(path.absolute())}")
    return 0


def _folder_of(path: Path) -> Path:
    """The folder of a table, outside those named KEY=VALUE that give it columns."""
    return next(folder for folder in path.parents if not is_partition(folder.name))


def _with_schemas(named: str) -> tuple[str, Callable[[Path, str], str]]:
    """The data set ``named``, or else the first one with schemas, and what writes one.

    Raises:
        KfrecError: it has none.
    """
    for name in [named] if named else registry.names(registry.DATASETS):
        schema = registry.dataset(name).first_schema
        if schema is not None:
            return name, schema
    raise KfrecError(f"data set {named or 'of any name'}: has no schemas; name another one with --dataset")


def _models_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="write the registered ones as JSON")
    add_tracked_workdir(parser)


def _models(options: argparse.Namespace) -> int:
    """Lists the installed models, of a broken one what is wrong, and the registered ones."""
    from pipelines.runs.registered import default_model, registered, table

    use_store_of(options)
    if options.json:
        print(json.dumps(registered(), indent=2))
        return 0
    for name in registry.names(registry.MODELS):
        try:
            summary = registry.model(name).summary
        except KfrecError as error:
            summary = f"broken: {error}"
        print(f"{name:<16} {summary}")
    store = without_password(tracking_uri())
    versions = registered()
    print(f"registered at {store}:\n{table(versions)}" if versions else f"no model is registered at {store}")
    with suppress(KfrecError):
        named, run = default_model(workdir_of(options))
        if any(f"{held['name']}@{alias}" == named for held in versions for alias in held["aliases"]):
            print(
                f"kfrec recommend, predict and serve take {named} by default, as run {run} is the newest with a model"
            )
        else:
            print(f"there is no {named} now; name a version to kfrec recommend, predict and serve")
    return 0


def _parameters_arguments(parser: argparse.ArgumentParser) -> None:
    add_pipeline(parser)
    add_set(parser)
    add_after(parser)


def _parameters(options: argparse.Namespace) -> int:
    """Lists every pipeline parameter by step, a shared one only under its first step: name, value, origin, meaning.

    The value is that of ``kfrec run`` with the same options; where ``kfrec submit`` has another one, it follows.
    """
    pipeline = pipeline_of(options)
    assignments = dict(parse_assignment(text) for text in options.set)
    checked({}, pipeline)
    print(f"  {'parameter':<32} {'kfrec run':<24} {'from':<28} meaning")
    if not options.after:
        _list(pipeline, (*pipeline.kinds, pipeline.kind), assignments)
        return 0
    from pipelines.chain import FIRST, chain_of, divided

    chain = chain_of(options.after, pipeline)
    first, second = divided(chain, assignments)
    _list(chain.first, (TRAINING,), first, chain.shared, FIRST)
    _list(chain.second, (TRAINING,), second, chain.linked)
    return 0


def _list(
    pipeline: Pipeline,
    kinds: Collection[str],
    assignments: Mapping[str, str],
    left_out: Collection[str] = (),
    prefix: str = "",
) -> None:
    from pipelines.local import arguments_of

    values: dict[str, Any] = {}
    whose: dict[str, str] = {}
    on_cluster: dict[str, dict[str, Any]] = {size: {} for size in SIZES}
    for kind in kinds:
        of_kind = pipeline.of_kind(kind)
        arguments = arguments_of(of_kind, assignments if kind == pipeline.kind else {}, Path(WORKDIR))
        owners = whose_defaults(of_kind)
        values |= arguments
        whose |= {name: owners.get(name, "step") for name in arguments}
        for size, known in on_cluster.items():
            every = pipeline_parameters(of_kind, cluster_defaults(of_kind, size))
            known |= {name: parameter.plain_default for name, parameter in every.items()}
    whose |= {"cache_dir": "this machine"} | dict.fromkeys(assignments, "you")
    seen = set(left_out)
    for step in STEPS.values():
        print(f"{step.name}: {step.summary}")
        for parameter in step_parameters(step, pipeline):
            name = parameter.pipeline_name
            if name not in seen and name in values:
                seen.add(name)
                large, small = ("" if name in assignments else known[name] for known in on_cluster.values())
                is_other = name not in assignments and {large, small} != {values[name]}
                of_small = f", with --size small {_shown(small)}" if small != large else ""
                note = f"; kfrec submit has {_shown(large)}{of_small}" if is_other else ""
                shown = f"{_shown(values[name]):<24} {whose[name]:<28}"
                print(f"  {prefix + name:<32} {shown} {parameter.description}{note}")
        print()


def _shown(value: object) -> str:
    return without_password(str(value)) if value != "" else "(empty)"


def _completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="one of %(choices)s")


def _completion(options: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise KfrecError("kfrec completion needs shtab; install kfrec[completion]") from None
    completions = {"FOLDER": shtab.DIRECTORY, "FILE": shtab.FILE}
    for action in _actions(options.parser):
        if action.metavar in completions:
            action.complete = completions[action.metavar]  # type: ignore[attr-defined]
        for option in action.option_strings:
            if option in _NAMES:
                action.choices = registry.names(_NAMES[option])
    print(shtab.complete(options.parser, options.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The actions of a parser and of its commands."""
    actions = list(parser._actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            actions += [each for command in action.choices.values() for each in _actions(command)]
    return actions


COMMANDS = {
    "completion": Command("write a shell's completion script", _completion_arguments, _completion),
    "doctor": Command("check this machine, or a cluster, for missing prerequisites", _doctor_arguments, _doctor),
    "init-schema": Command("write a first schema of a table, to be corrected", _schema_arguments, _init_schema),
    "models": Command("list the installed and the registered models", _models_arguments, _models),
    "parameters": Command(
        "list the parameters of a model's pipelines, with the values that kfrec run has",
        _parameters_arguments,
        _parameters,
    ),
}
