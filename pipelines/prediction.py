"""The prediction pipeline: scores files of raw rows with a registered model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfp.dsl.graph_component import GraphComponent

from pipelines.defaults import Pipeline
from pipelines.form import field_names, form
from pipelines.parameters import pipeline_parameters
from pipelines.training import Configure, kfp_pipeline, task_of


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
    known = pipeline_parameters(pipeline, defaults)
    summary = "Scores files of raw rows with a registered model and writes the scores beside them."
    return kfp_pipeline(
        pipeline.kfp_name,
        summary,
        lambda given: configure(task_of("predict", pipeline, known, given), "predict"),
        form(pipeline, known, field_names(pipeline)),
    )
