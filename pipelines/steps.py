"""The steps as KFP components, generated from the catalog: signature, docstring and one call."""

from __future__ import annotations

import linecache
from functools import cache
from typing import Any

from kfp import dsl
from kfp.dsl.base_component import BaseComponent

from components import registry
from components.images import step_image
from components.parameters import parameters_of
from components.steps.catalog import STEPS, Step
from components.steps.command import DEFAULTS, OPTIONS
from pipelines.defaults import Pipeline
from pipelines.parameters import BOUND, TOLD

# KFP's artifact types; the default is Artifact.
_TYPES = {"raw": "Dataset", "parquet": "Dataset", "tfrecord": "Dataset", "model": "Model", "champion": "Model"}

# An input of the steps that run code of another package than kfrec. KFP reuses the outputs of a step that had the same
# inputs, so another version of the package must be another input.
EXTENSIONS = "extensions"


def artifact_type(name: str) -> str:
    """The name of an artifact's KFP type."""
    return _TYPES.get(name, "Artifact")


@cache
def component(step_name: str, pipeline: Pipeline, options: frozenset[str] = frozenset()) -> BaseComponent:
    """A step as a KFP component, with its parameters in a pipeline.

    Args:
        options: the parameters that come in its JSON objects, by pipeline-wide name; the others are inputs.
    """
    function = _function(STEPS[step_name], pipeline, options)
    return dsl.component(base_image=step_image(), install_kfp_package=False)(function)


def extensions_of(step: Step, pipeline: Pipeline) -> str:
    """The packages beside kfrec whose code a step runs, the value of its input EXTENSIONS; empty if there are none."""
    declared = {parameter.name for parameter in parameters_of(step.parameters(pipeline.choices))}
    choices = {name: value for name, value in pipeline.choices.items() if name in declared}
    return ", ".join(sorted(set(registry.extensions(choices).values())))


def _function(step: Step, pipeline: Pipeline, options: frozenset[str]) -> Any:
    """The function; KFP sends its source to the step's container."""
    declared = [p for p in parameters_of(step.parameters(pipeline.choices)) if p.pipeline_name not in options]
    types = {p.name: p.plain_type.__name__ for p in declared}
    arguments = {name: f"Input[{artifact_type(name)}]" for name in step.inputs}
    arguments |= {name: f"Output[{artifact_type(name)}]" for name in step.outputs}
    arguments |= {name: f"Output[{kind}]" for name, kind in step.shown.items()}
    if extensions_of(step, pipeline):
        arguments[EXTENSIONS] = "str"
    arguments |= {
        name: kind for name, kind in types.items() if name not in BOUND or name in TOLD or name in pipeline.choices
    }
    if options:
        arguments |= {DEFAULTS: "dict", OPTIONS: "dict"}
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
    filename = f"<the {step.name} step of {pipeline.name}>"
    # KFP reads a function's source through linecache.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module: dict[str, Any] = {}
    exec("from typing import NamedTuple\nfrom kfp.dsl import *\n", module)
    exec(compile(source, filename, "exec", dont_inherit=True), module)
    return module[step.name]
