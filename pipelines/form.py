"""The form of a pipeline in the KFP UI: a field for each parameter that most runs set, a JSON object for each step's
others."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from components.parameters import Parameter
from components.steps.catalog import STEPS
from components.steps.command import OPTIONS
from pipelines.defaults import Pipeline
from pipelines.parameters import step_parameters


class Field(NamedTuple):
    plain_type: type
    plain_default: Any
    description: str


def options_name(step: str) -> str:
    """The field with the options of a step, such as ``train_options``."""
    return f"{step}_{OPTIONS}"


def field_names(pipeline: Pipeline) -> frozenset[str]:
    """The parameters that are fields of their own, by pipeline-wide name."""
    every = (parameter for step in pipeline.steps for parameter in step_parameters(STEPS[step], pipeline))
    return frozenset(parameter.pipeline_name for parameter in every if parameter.in_form)


def options_of(step: str, pipeline: Pipeline, fields: Collection[str]) -> list[Parameter]:
    """The parameters of a step that are no fields."""
    return [each for each in step_parameters(STEPS[step], pipeline) if each.pipeline_name not in fields]


def form(pipeline: Pipeline, known: Mapping[str, Parameter], fields: Collection[str]) -> dict[str, Field]:
    shown = {
        name: Field(parameter.plain_type, parameter.plain_default, parameter.description)
        for name, parameter in known.items()
        if name in fields
    }
    for step in pipeline.steps:
        if names := [each.pipeline_name for each in options_of(step, pipeline, fields) if each.pipeline_name in known]:
            example = json.dumps({names[0]: known[names[0]].plain_default})
            text = f"Other parameters of the {step} step, a JSON object such as {example}: {', '.join(sorted(names))}"
            shown[options_name(step)] = Field(dict, {}, text)
    return shown


def pipeline_inputs(
    pipeline: Pipeline, values: Mapping[str, Any], fields: Collection[str] | None = None
) -> dict[str, Any]:
    """The inputs of a compiled pipeline: the values of its form's fields.

    A parameter that two steps share is in the options of both.

    Args:
        fields: the parameters that are fields of their own; None is those of the KFP UI.
    """
    own = field_names(pipeline) if fields is None else fields
    given = {name: value for name, value in values.items() if name in own}
    for step in pipeline.steps:
        names = [each.pipeline_name for each in options_of(step, pipeline, own)]
        if options := {name: values[name] for name in names if name in values}:
            given[options_name(step)] = options
    return given
