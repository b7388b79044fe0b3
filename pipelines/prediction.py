"""The prediction pipeline: scores files of raw rows with a registered model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfp import dsl
from kfp.dsl.graph_component import GraphComponent

from pipelines.defaults import Pipeline
from pipelines.parameters import pipeline_parameters
from pipelines.training import Configure, pipeline_function, task_of


def prediction_pipeline(
    pipeline: Pipeline,
    configure: Configure = lambda task, step: None,
    defaults: Mapping[str, Any] | None = None,
) -> GraphComponent:
    """The pipeline for KFP's compiler or kfp.local.

    Args:
        pipeline: of the kind prediction.
        configure: applies cluster settings to each task.
        defaults: local or cluster defaults of parameters.
    """

    def wire(values: Mapping[str, Any]) -> None:
        configure(task_of("predict", pipeline, values), "predict")

    summary = "Scores files of raw rows with a registered model and writes the scores beside them."
    return dsl.pipeline(name=pipeline.kfp_name)(
        pipeline_function(wire, summary, pipeline_parameters(pipeline, defaults))
    )
