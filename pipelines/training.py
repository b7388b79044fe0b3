"""The training pipeline: download -> preprocess -> tfrecord -> train -> evaluate -> register."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kfp import dsl
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.graph_component import GraphComponent
from kfp.dsl.pipeline_task import PipelineTask

from components.download.component import download
from components.evaluate.component import evaluate
from components.preprocess.component import preprocess
from components.register.component import register
from components.steps.catalog import STEPS
from components.steps.parameter import Parameter
from components.tfrecord.component import tfrecord
from components.train.component import train
from pipelines.defaults import TRAINING
from pipelines.parameters import pipeline_parameters, step_parameters

NAME = "kfrec-training"


# Called with each task and the name of its step.
Configure = Callable[[PipelineTask, str], None]


def _wire(values: Mapping[str, Any], configure: Configure) -> None:
    """Says what runs after what; ``values`` are the pipeline's parameters by pipeline-wide name."""

    def run(component: BaseComponent, **inputs: Any) -> Any:
        step = STEPS[component.name]
        own = {parameter.name: values[parameter.pipeline_name] for parameter in step_parameters(step)}
        if "run_id" in component.component_spec.inputs:
            own["run_id"] = dsl.PIPELINE_JOB_ID_PLACEHOLDER
        task = component(**own, **inputs)
        configure(task, component.name)
        return task

    raw = run(download).outputs["raw"]
    parquet = run(preprocess, raw=raw).outputs["parquet"]
    records = run(tfrecord, parquet=parquet).outputs["tfrecord"]
    model = run(train, tfrecord=records).outputs["model"]
    evaluation = run(evaluate, tfrecord=records, model=model).outputs["evaluation"]
    run(register, tfrecord=records, model=model, evaluation=evaluation)


def pipeline_function(
    wire: Callable[[Mapping[str, Any]], None], summary: str, parameters: Mapping[str, Parameter]
) -> Callable[..., None]:
    """A function with these parameters as its own signature and docstring, as KFP wants to see it."""

    def pipeline(*values: Any) -> None:
        wire(dict(zip(parameters, values, strict=True)))

    arguments = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=p.plain_default, annotation=p.plain_type
        )
        for name, p in parameters.items()
    ]
    pipeline.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    described = "\n".join(f"    {name}: {parameter.description}" for name, parameter in parameters.items())
    pipeline.__doc__ = f"{summary}\n\nArgs:\n{described}\n"
    return pipeline


def training_pipeline(
    configure: Configure = lambda task, step: None, defaults: Mapping[str, Any] | None = None
) -> GraphComponent:
    """The pipeline as KFP compiles it, or runs it locally.

    Args:
        configure: puts on each task what the place where it runs asks for.
        defaults: of parameters, in that place.
    """
    summary = "Raw interaction logs to a trained, evaluated and registered click-through-rate model."
    parameters = pipeline_parameters(TRAINING, defaults)
    return dsl.pipeline(name=NAME)(pipeline_function(lambda values: _wire(values, configure), summary, parameters))
