"""The parameter reference of the docs, generated from the catalog: ``python -m components.steps.reference``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from components import registry
from components.parameters import Parameter, parameters_of, plain
from components.steps.catalog import STEPS, WorkerParameters, chosen_defaults

_HEAD = """# Parameters

Generated from the catalog by `make reference`; do not edit. Names are those of the steps' commands;
if the pipeline (`--set`, KFP UI) uses another name, it follows in brackets. The column `kfrec run` has the defaults on
one machine that differ; `kfrec parameters --model NAME` prints the values that `kfrec run` has with the same options.
"""

_FORM = """## The form in the KFP UI

A pipeline asks for these in fields of their own, as far as its steps have them. Everything else of a step is one JSON
object in the field `STEP_options`: `train_options` may be `{"lr": 0.002, "patience": 2}`. The step checks names and
values in its first second; `kfrec submit` checks them before the run starts. A parameter that two steps share, such as
`seed`, is given to each in its options. `--set NAME=VALUE` takes every name, of a field or not, and gives a shared
parameter to all of its steps.

"""


def reference() -> str:
    sections = [_HEAD, _form()]
    for step in STEPS.values():
        folders = [f"reads `{name}`: {text}" for name, text in step.inputs.items()]
        folders += [f"writes `{name}`: {text}" for name, text in step.outputs.items()]
        text = f"{step.summary} It {'; '.join(folders)}."
        sections.append(_section(step.name, text, parameters_of(step.own), {}))
    for name in registry.names(registry.DATASETS):
        data = registry.dataset(name)
        steps = {"download": parameters_of(data.generation), "preprocess": parameters_of(data.sampling)}
        text = f"`dataset={name}` adds to the steps download and preprocess: {data.summary}"
        own = [_with_default(parameter, data.defaults) for parameter in _of_every(steps)]
        sections.append(_section(f"data set {name}", text, own, data.local_defaults))
    for name in registry.names(registry.TASKS):
        task = registry.task(name)
        declared = {"train": task.training, "evaluate": task.evaluation, "register": task.decision}
        text = f"`task={name}` adds to the steps train, evaluate and register: {task.summary}"
        own = _of_every({step: parameters_of(own) for step, own in declared.items()})
        sections.append(_section(f"task {name}", text, own, {}))
    for name in registry.names(registry.MODELS):
        model = registry.model(name)
        text = (
            f"`model_type={name}` adds to the train step and the worker: {model.summary} Steps' parameters, at the "
            "end, have other defaults, of the model or its task."
        )
        defaults = chosen_defaults({"model_type": name})
        own = [_with_default(parameter, defaults) for parameter in parameters_of(model.parameters)]
        own += _of_steps({**defaults, **model.local_defaults}, defaults)
        sections.append(_section(f"model {name}", text, own, {**defaults, **model.local_defaults}))
    of_train = {parameter.name for parameter in parameters_of(STEPS["train"].own)}
    sections.append(
        _section(
            "the training worker",
            "`python -m components.train.worker --dataset_dir FOLDER`: one Horovod process, started by the train step, "
            "by `horovodrun`, by `mpirun`, or alone. It takes the train step's parameters, except those that say how "
            "to start it, and these:",
            [p for p in parameters_of(WorkerParameters) if p.name not in of_train],
            {},
        )
    )
    return "\n".join(sections)


def _form() -> str:
    every = _of_every({step.name: parameters_of(step.own) for step in STEPS.values()})
    return _FORM + _table([parameter for parameter in every if parameter.in_form], {})


def _of_every(steps: Mapping[str, Sequence[Parameter]]) -> list[Parameter]:
    """The parameters of several steps, each once."""
    return list({parameter.pipeline_name: parameter for own in steps.values() for parameter in own}.values())


def _of_steps(names: Collection[str], defaults: Mapping[str, Any]) -> list[Parameter]:
    """The steps' own parameters of these names, with other defaults."""
    every = {parameter.pipeline_name: parameter for step in STEPS.values() for parameter in parameters_of(step.own)}
    return [_with_default(every[name], defaults) for name in names if name in every]


def _with_default(parameter: Parameter, defaults: Mapping[str, Any]) -> Parameter:
    return dataclasses.replace(parameter, default=defaults.get(parameter.pipeline_name, parameter.default))


def _section(title: str, text: str, parameters: Iterable[Parameter], local: Mapping[str, Any]) -> str:
    return f"## {title}\n\n{text}\n\n{_table(parameters, local)}"


def _table(parameters: Iterable[Parameter], local: Mapping[str, Any]) -> str:
    head = ["| parameter | default | `kfrec run` | unit | meaning |", "|---|---|---|---|---|"]
    rows = [_row(parameter, plain(local.get(parameter.pipeline_name, ""))) for parameter in parameters]
    return "\n".join([*head, *rows]) + "\n"


def _row(parameter: Parameter, local: Any) -> str:
    name = f"`{parameter.name}`"
    if parameter.pipeline_name != parameter.name:
        name += f" [`{parameter.pipeline_name}`]"
    default, here = (f"`{value}`" if value != "" else "" for value in (parameter.plain_default, local))
    meaning = parameter.help + (f": {', '.join(parameter.choices)}" if parameter.choices else "")
    return f"| {name} | {default} | {here if here != default else ''} | {parameter.unit} | {meaning} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
