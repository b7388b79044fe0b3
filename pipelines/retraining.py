"""The retraining pipeline: find the newest data and, where it is worth it, the training pipeline on it.

kfp.local knows no conditions, so :mod:`pipelines.local` runs the two halves one after the other itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfp import dsl
from kfp.dsl.graph_component import GraphComponent

from components.find.component import find
from components.steps.catalog import STEPS
from pipelines.defaults import FOUND, RETRAINING
from pipelines.parameters import pipeline_parameters, step_parameters
from pipelines.training import Configure, pipeline_function, training_pipeline

NAME = "kfrec-retraining"


def find_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the find component, from the pipeline's parameters."""
    return {parameter.name: values[parameter.pipeline_name] for parameter in step_parameters(STEPS["find"])}


def training_arguments(values: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the training pipeline: the retraining's own, and what was found."""
    own = {name: values[name] for name in pipeline_parameters() if name not in FOUND}
    return own | {name: found[name] for name in FOUND}


def retraining_pipeline(
    configure: Configure = lambda task, step: None, defaults: Mapping[str, Any] | None = None
) -> GraphComponent:
    """The pipeline as KFP compiles it.

    Args:
        configure: puts on each task what the place where it runs asks for.
        defaults: of parameters, in that place.
    """
    train = training_pipeline(configure, defaults)

    def wire(values: Mapping[str, Any]) -> None:
        found = find(**find_arguments(values))
        configure(found, "find")
        with dsl.If(found.outputs["proceed"] == True, name="new-data"):  # noqa: E712
            train(**training_arguments(values, found.outputs))

    summary = "The newest data version to a model that is held against the champion, if there is something new."
    return dsl.pipeline(name=NAME)(pipeline_function(wire, summary, pipeline_parameters(RETRAINING, defaults)))
