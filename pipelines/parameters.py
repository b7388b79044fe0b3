"""The pipeline's parameters: every step's, by their pipeline-wide names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from components.errors import KfrecError
from components.steps.catalog import STEPS, Step
from components.steps.parameter import Parameter, parameters_of, plain, unknown_parameter

# Arguments that the pipeline itself, or the artifacts that a step is given, fill in.
BOUND = ("run_id", "tfrecord_uri", "model_uri")


def step_parameters(step: Step) -> list[Parameter]:
    """The parameters of a step that a user of the pipeline sets."""
    return [parameter for parameter in parameters_of(step.parameters) if parameter.name not in BOUND]


def pipeline_parameters(steps: Iterable[Step] = STEPS.values()) -> dict[str, Parameter]:
    """Pipeline-wide name to parameter; a parameter that several steps share appears once."""
    return {parameter.pipeline_name: parameter for step in steps for parameter in step_parameters(step)}


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Checks values given by pipeline-wide name and returns them as KFP carries them.

    Raises:
        KfrecError: an unknown name, or a value of the wrong type or out of range.
    """
    known = pipeline_parameters()
    for name in values:
        if name not in known:
            raise KfrecError(unknown_parameter(name, list(known)))
    return {name: plain(known[name].parse(value)) for name, value in values.items()}


def parse_assignment(text: str) -> tuple[str, str]:
    """Splits the ``name=value`` of --set.

    Raises:
        KfrecError: there is no equals sign.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise KfrecError(f"--set {text}: write it as name=value")
    return name.strip(), value
