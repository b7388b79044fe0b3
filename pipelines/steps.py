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
from pipelines.parameters import BOUND, choices

# KFP's types of artifacts; what is not named is an Artifact.
_TYPES = {"raw": "Dataset", "parquet": "Dataset", "tfrecord": "Dataset", "model": "Model", "champion": "Model"}


@cache
def component(step_name: str, model: str) -> BaseComponent:
    """A step as a KFP component, with the parameters that it has for a model.

    Args:
        step_name: in the catalog.
        model: name of the model.
    """
    step = STEPS[step_name]
    return dsl.component(base_image=image(step_name), install_kfp_package=False)(_function(step, model))


def _function(step: Step, model: str) -> Any:
    """The function whose source KFP sends to the step's container."""
    types = {p.name: p.plain_type.__name__ for p in parameters_of(step.parameters(choices(model)))}
    arguments = {name: f"Input[{_TYPES.get(name, 'Artifact')}]" for name in step.inputs}
    arguments |= {name: f"Output[{_TYPES.get(name, 'Artifact')}]" for name in step.outputs}
    arguments |= {name: f"Output[{kind}]" for name, kind in step.shown.items()}
    arguments |= {
        name: kind for name, kind in types.items() if name not in BOUND or name == "run_id" or name in choices(model)
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
    place = f"<the {step.name} step of {model}>"
    # KFP reads the source of a function where its file is: here.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    module: dict[str, Any] = {}
    exec("from typing import NamedTuple\nfrom kfp.dsl import *\n", module)
    exec(compile(source, place, "exec", dont_inherit=True), module)
    return module[step.name]
