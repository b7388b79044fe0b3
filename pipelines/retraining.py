"""The retraining pipeline: finds the newest data and, if there is enough, runs the training pipeline on it.

kfp.local supports no conditions, so ``pipelines.local`` runs the two halves in sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfp import dsl
from kfp.dsl.graph_component import GraphComponent

from pipelines.defaults import DECIDED, TRAINING, Pipeline
from pipelines.parameters import pipeline_parameters
from pipelines.training import Configure, kfp_pipeline, task_of, training_pipeline


def training_arguments(pipeline: Pipeline, values: Mapping[str, Any], decision: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the training pipeline: the retraining's own and the find step's results."""
    own = {name: values[name] for name in pipeline_parameters(pipeline.of_kind(TRAINING)) if name not in DECIDED}
    return own | {name: decision[name] for name in DECIDED}


def retraining_pipeline(
    pipeline: Pipeline,
    configure: Configure = lambda task, step: None,
    defaults: Mapping[str, Any] | None = None,
) -> GraphComponent:
    """The pipeline for KFP's compiler.

    Args:
        pipeline: of the kind retraining.
        configure: applies cluster settings to each task.
        defaults: local or cluster defaults of parameters.
    """
    train = training_pipeline(pipeline.of_kind(TRAINING), configure, defaults)

    def wire(values: Mapping[str, Any]) -> None:
        decision = task_of("find", pipeline, values)
        configure(decision, "find")
        with dsl.If(decision.outputs["proceed"] == True, name="new-data"):  # noqa: E712
            train(**training_arguments(pipeline, values, decision.outputs))

    summary = "Trains on the newest data version, if there is new data, and compares the model with the champion."
    return kfp_pipeline(pipeline.kfp_name, summary, wire, pipeline_parameters(pipeline, defaults))
