"""The pipeline's parameters: every step's, by their pipeline-wide names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from components.errors import KfrecError
from components.steps.catalog import STEPS, Step
from components.steps.parameter import Parameter, build, parameters_of, plain, unknown_parameter
from pipelines.defaults import FOUND, PIPELINE_DEFAULTS, PIPELINES, RETRAINING, TRAINING

# Arguments that the pipeline itself, or the artifacts that a step is given, fill in.
BOUND = ("run_id", "tfrecord_uri", "model_uri", "champion_uri")


def step_parameters(step: Step) -> list[Parameter]:
    """The parameters of a step that a user of the pipeline sets."""
    return [parameter for parameter in parameters_of(step.parameters) if parameter.name not in BOUND]


def pipeline_parameters(pipeline: str = TRAINING, defaults: Mapping[str, Any] | None = None) -> dict[str, Parameter]:
    """Pipeline-wide name to parameter; a parameter that several steps share appears once.

    Args:
        pipeline: its name.
        defaults: of the place where it runs, over those of the pipeline and of the catalog.
    """
    other = {**PIPELINE_DEFAULTS[pipeline], **(defaults or {})}
    decided = FOUND if pipeline == RETRAINING else ()
    every = (parameter for name in PIPELINES[pipeline] for parameter in step_parameters(STEPS[name]))
    return {
        parameter.pipeline_name: dataclasses.replace(
            parameter, default=other.get(parameter.pipeline_name, parameter.default)
        )
        for parameter in every
        if parameter.pipeline_name not in decided
    }


def checked(
    values: Mapping[str, Any], pipeline: str = TRAINING, defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Checks values given by pipeline-wide name and returns them as KFP carries them.

    Args:
        values: those that were given.
        pipeline: its name.
        defaults: what the others are where it runs; see :func:`pipeline_parameters`.

    Raises:
        KfrecError: an unknown name, a value of the wrong type or out of range, or values that exclude each other.
    """
    known = pipeline_parameters(pipeline, defaults)
    for name in values:
        if name not in known:
            raise KfrecError(unknown_parameter(name, list(known)))
    given = {name: plain(known[name].parse(value)) for name, value in values.items()}
    every = {name: parameter.plain_default for name, parameter in known.items()} | given
    for step in (STEPS[name] for name in PIPELINES[pipeline]):
        named = {p.name: p.pipeline_name for p in step_parameters(step)}
        build(step.parameters, {name: every[wide] for name, wide in named.items() if wide in every})
    return given


def parse_assignment(text: str) -> tuple[str, str]:
    """Splits the ``name=value`` of --set.

    Raises:
        KfrecError: there is no equals sign.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise KfrecError(f"--set {text}: write it as name=value")
    return name.strip(), value
