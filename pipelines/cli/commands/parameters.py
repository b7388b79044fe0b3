"""``kfrec parameters``: the parameters of a model's pipelines."""

from __future__ import annotations

import argparse

from components.steps.catalog import STEPS
from components.steps.parameter import Parameter
from pipelines.cli.options import add_model
from pipelines.defaults import PIPELINES, TRAINING, Pipeline
from pipelines.parameters import pipeline_parameters, step_parameters

SUMMARY = "list the parameters of a model's pipelines"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)


def execute(options: argparse.Namespace) -> int:
    """Lists every pipeline parameter with unit and default, by step; a shared one only under its first step."""
    pipeline = Pipeline(TRAINING, options.model, options.dataset, options.task)
    known: dict[str, Parameter] = {}
    for kind in (*PIPELINES, TRAINING):
        known |= pipeline_parameters(pipeline.of_kind(kind))
    seen = set[str]()
    for step in STEPS.values():
        print(f"{step.name}: {step.summary}")
        for parameter in step_parameters(step, pipeline):
            if parameter.pipeline_name not in seen:
                seen.add(parameter.pipeline_name)
                print(f"  {parameter.pipeline_name:<32} {known[parameter.pipeline_name].description}")
        print()
    return 0
