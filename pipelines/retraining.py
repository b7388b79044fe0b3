"""The retraining pipeline: finds the newest data and, if there is enough, runs the training pipeline on it.

kfp.local supports no conditions, so ``pipelines.local`` runs the two halves in sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfp import dsl
from kfp.dsl.graph_component import GraphComponent

from pipelines.defaults import DECIDED, TRAINING, Pipeline
from pipelines.form import field_names, form
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
    known = pipeline_parameters(pipeline, defaults)
    training = pipeline.of_kind(TRAINING)
    fields = field_names(training) | set(DECIDED)
    own = {name: parameter.default for name, parameter in known.items()}
    train = training_pipeline(training, configure, own, fields=fields)

    def wire(given: Mapping[str, Any]) -> None:
        decision = task_of("find", pipeline, known, given)
        configure(decision, "find")
        decided = {name: decision.outputs[name] for name in DECIDED}
        passed = {name: given[name] for name in form(training, known, fields)}
        with dsl.If(decision.outputs["proceed"] == True, name="new-data"):  # noqa: E712
            train(**passed, **decided)

    summary = "Trains on the newest data version, if there is new data, and compares the model with the champion."
    return kfp_pipeline(pipeline.kfp_name, summary, wire, form(pipeline, known, field_names(pipeline)))
