"""The steps as KFP components, generated from the catalog: a signature, a docstring and one call."""

from __future__ import annotations

import linecache
from functools import cache
from typing import Any

from kfp import dsl
from kfp.dsl.base_component import BaseComponent

from components.steps.catalog import STEPS, Step
from components.steps.images import image
from components.steps.parameter import parameters_of
from pipelines.defaults import Pipeline
from pipelines.parameters import BOUND

# KFP's types of artifacts; what is not named is an Artifact.
_TYPES = {"raw": "Dataset", "parquet": "Dataset", "tfrecord": "Dataset", "model": "Model", "champion": "Model"}


def artifact_type(name: str) -> str:
    """The name of KFP's type of an artifact."""
    return _TYPES.get(name, "Artifact")


@cache
def component(step_name: str, pipeline: Pipeline) -> BaseComponent:
    """A step as a KFP component, with the parameters that it has in a pipeline.

    Args:
        step_name: in the catalog.
        pipeline: with the model, the data set and the task.
    """
    step = STEPS[step_name]
    return dsl.component(base_image=image(step_name), install_kfp_package=False)(_function(step, pipeline))


def _function(step: Step, pipeline: Pipeline) -> Any:
    """The function whose source KFP sends to the step's container."""
    types = {p.name: p.plain_type.__name__ for p in parameters_of(step.parameters(pipeline.choices))}
    arguments = {name: f"Input[{artifact_type(name)}]" for name in step.inputs}
    arguments |= {name: f"Output[{artifact_type(name)}]" for name in step.outputs}
    arguments |= {name: f"Output[{kind}]" for name, kind in step.shown.items()}
    arguments |= {
        name: kind for name, kind in types.items() if name not in BOUND or name == "run_id" or name in pipeline.choices
    }
    results = ", ".join(f"('{name}', {kind.__name__})" for name, kind in step.results.items())
    source = "".join(
        (
            f"def {step.name}(\n",
            *(f"    {name}: {kind},\n" for name, kind in arguments.items()),
            f") -> {'NamedTuple(' + repr('Results') + f', [{results}])' if results else 'None'}:\n",
            f'    """{step.summary}"""\n',
            "    from components.steps.command import component\n\n",
            f'    return component("{step.name}", locals())\n',
        )
    )
    place = f"<the {step.name} step of {pipeline.name}>"
    # KFP reads the source of a function where its file is: here.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    module: dict[str, Any] = {}
    exec("from typing import NamedTuple\nfrom kfp.dsl import *\n", module)
    exec(compile(source, place, "exec", dont_inherit=True), module)
    return module[step.name]
