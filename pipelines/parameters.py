"""The parameters of all steps of a pipeline, by pipeline-wide name."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from components import registry
from components.errors import KfrecError
from components.parameters import Parameter, build, parameters_of, plain, unknown_parameter
from components.steps.catalog import STEPS, Step
from components.tasks.pairing import require_names
from pipelines.defaults import DECIDED, INCREMENTAL, Pipeline, pipeline_defaults

# Arguments set by the pipeline itself, or by a step's input artifacts.
BOUND = ("run_id", "refitting", "tfrecord_uri", "model_uri", "champion_uri", "model_type", "task", "dataset")
# Those of them that are inputs of a KFP component.
RUN_INPUTS = ("run_id", "refitting")


def step_parameters(step: Step, pipeline: Pipeline) -> list[Parameter]:
    """The user-settable parameters of a step."""
    return [parameter for parameter in parameters_of(step.parameters(pipeline.choices)) if parameter.name not in BOUND]


def pipeline_parameters(pipeline: Pipeline, defaults: Mapping[str, Any] | None = None) -> dict[str, Parameter]:
    """Pipeline-wide name to parameter; a parameter that several steps share appears once.

    Args:
        defaults: local or cluster defaults; they override all others.

    Raises:
        KfrecError: there is no such model, data set or task, or the names of its parameters or its defaults are wrong.
    """
    other = {**pipeline_defaults(pipeline), **(defaults or {})}
    decided = DECIDED.get(pipeline.kind, ())
    every = (parameter for name in pipeline.steps for parameter in step_parameters(STEPS[name], pipeline))
    return {
        parameter.pipeline_name: dataclasses.replace(
            parameter, default=other.get(parameter.pipeline_name, parameter.default)
        )
        for parameter in every
        if parameter.pipeline_name not in decided
    }


def checked(values: Mapping[str, Any], pipeline: Pipeline, defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Validates values by pipeline-wide name and returns them as KFP's plain types.

    Args:
        defaults: of the other parameters; see ``pipeline_parameters``.

    Raises:
        KfrecError: an unknown name, a value of the wrong type or out of range, or values that exclude each other.
    """
    if pipeline.kind == INCREMENTAL and not pipeline.grows:
        growing = [name for name in registry.names(registry.DATASETS) if registry.dataset(name).grows]
        raise KfrecError(
            f"--pipeline {INCREMENTAL}: the vocabulary of data set {pipeline.choices['dataset']} cannot grow, as those "
            f"of {' and '.join(growing)} can; use --pipeline retraining, whose data versions are complete"
        )
    known = pipeline_parameters(pipeline, defaults)
    for name in values:
        if name == "model_type":
            raise KfrecError(
                f"parameter model_type is not a pipeline parameter; choose the model with --model {values[name]}"
            )
        if name in ("dataset", "task"):
            raise KfrecError(f"parameter {name} is not a pipeline parameter; choose it with --{name} {values[name]}")
        if name not in known:
            options = f"--pipeline {pipeline.kind} --model {pipeline.model}"
            raise KfrecError(unknown_parameter(name, list(known), f"kfrec parameters {options} lists them"))
    # Messages use the name that the user gave.
    parsed = {name: plain(dataclasses.replace(known[name], name=name).parse(value)) for name, value in values.items()}
    every = {name: parameter.plain_default for name, parameter in known.items()} | parsed
    built: dict[str, Any] = {}
    for step in (STEPS[name] for name in pipeline.steps):
        named = {p.name: p.pipeline_name for p in step_parameters(step, pipeline)}
        built[step.name] = build(
            step.parameters(pipeline.choices),
            {name: every[wide] for name, wide in named.items() if wide in every},
        )
    require_names(every)
    if every.get("refit"):
        _require_refit(pipeline, every)
    if "train" in built:
        data, model = registry.dataset(pipeline.choices["dataset"]), registry.model(pipeline.model)
        lengths = data.lengths(built["preprocess"])
        if lacking := [channel for channel in model.needs if channel not in lengths]:
            raise KfrecError(
                f"model {model.name} learns from lists ({', '.join(lacking)}), which data set {data.name} does not "
                f"have; choose another model, or another data set than {data.name}"
            )
        _require_served(pipeline, data.lacks(every.get("source", ""), built["preprocess"]))
        model.check(built["train"], lengths)
    return parsed


def _require_served(pipeline: Pipeline, lacking: Collection[str]) -> None:
    """Checks that the data serve the task.

    Args:
        lacking: channels that the samples lack.

    Raises:
        KfrecError: the task needs one of them.
    """
    data, task = registry.dataset(pipeline.choices["dataset"]), registry.task(pipeline.choices["task"])
    for column in task.kept:
        if column.needed_for and column.channel in lacking:
            raise KfrecError(
                f"task {task.name} needs a {column.channel} for {column.needed_for}, which these samples of data set "
                f"{data.name} do not have; choose --task {data.task}, or data with a {column.channel}"
            )


def _require_refit(pipeline: Pipeline, values: Mapping[str, Any]) -> None:
    """Checks that a model can be trained again on everything.

    Raises:
        KfrecError: its data are split as they come, or it starts from weights of given ids or of a given epoch.
    """
    if not registry.dataset(pipeline.choices["dataset"]).refits:
        raise KfrecError(
            f"parameter refit=True: data set {pipeline.choices['dataset']} cannot train on what it tests on; set "
            "refit=false"
        )
    for name in ("continue_path", "load_checkpoint_path"):
        if values.get(name):
            raise KfrecError(
                f"parameters refit=True and {name}={values[name]}: a refit starts afresh, with the ids of the newest "
                "data; set refit=false"
            )


def parse_assignment(text: str) -> tuple[str, str]:
    """Splits the ``name=value`` of --set.

    Raises:
        KfrecError: there is no equals sign.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise KfrecError(f"--set {text}: write it as name=value")
    return name.strip(), value
