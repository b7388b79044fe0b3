"""The retraining pipeline: find the newest data and, if it is worth it, run the training pipeline on it.

kfp.local supports no conditions, so :mod:`pipelines.local` runs the two halves in sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfp import dsl
from kfp.dsl.graph_component import GraphComponent

from pipelines.defaults import FOUND, MODEL, RETRAINING, TRAINING, Pipeline
from pipelines.parameters import pipeline_parameters
from pipelines.training import Configure, pipeline_function, task_of, training_pipeline


def training_arguments(model: str, values: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the training pipeline: the retraining's own, and what was found."""
    own = {name: values[name] for name in pipeline_parameters(Pipeline(TRAINING, model)) if name not in FOUND}
    return own | {name: found[name] for name in FOUND}


def retraining_pipeline(
    model: str = MODEL,
    configure: Configure = lambda task, step: None,
    defaults: Mapping[str, Any] | None = None,
) -> GraphComponent:
    """The pipeline as KFP compiles it.

    Args:
        model: name of the model that it trains.
        configure: applies the settings of the place to each task.
        defaults: of parameters, in that place.
    """
    train = training_pipeline(model, configure, defaults)
    pipeline = Pipeline(RETRAINING, model)

    def wire(values: Mapping[str, Any]) -> None:
        found = task_of("find", model, values)
        configure(found, "find")
        with dsl.If(found.outputs["proceed"] == True, name="new-data"):  # noqa: E712
            train(**training_arguments(model, values, found.outputs))

    summary = "Trains on the newest data version, if there is new data, and compares the model with the champion."
    return dsl.pipeline(name=pipeline.kfp_name)(
        pipeline_function(wire, summary, pipeline_parameters(pipeline, defaults))
    )
