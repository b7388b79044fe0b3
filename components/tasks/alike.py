"""The parameters of an earlier evaluation, to evaluate another model in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.steps.parameter import build, parameters_of
from components.tasks.definition import TaskDefinition


def measured_with(task: TaskDefinition, given: Mapping[str, Any]) -> Any:
    """The task's evaluation parameters.

    Args:
        task: of the evaluation.
        given: the evaluate step's parameters, from its manifest.
    """
    known = {parameter.name for parameter in parameters_of(task.evaluation)}
    return build(task.evaluation, {name: value for name, value in given.items() if name in known})
