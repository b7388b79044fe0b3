"""The parameter reference of the docs, generated from the catalog: ``python -m components.steps.reference``."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from components import registry
from components.steps.catalog import STEPS, WorkerParameters, brought_defaults
from components.steps.parameter import Parameter, parameters_of, plain

_HEAD = """# Parameters

Generated from the catalog by `make reference`; do not edit. Names are those of the steps' commands;
if the pipeline (`--set`, KFP UI) uses another name, it follows in brackets.
"""


def reference() -> str:
    """The page as Markdown."""
    sections = [_HEAD]
    for step in STEPS.values():
        folders = [f"reads `{name}`: {text}" for name, text in step.inputs.items()]
        folders += [f"writes `{name}`: {text}" for name, text in step.outputs.items()]
        sections.append(_section(step.name, f"{step.summary} It {'; '.join(folders)}.", parameters_of(step.own)))
    for name in registry.names(registry.MODELS):
        model = registry.model(name)
        own = {parameter.name for parameter in parameters_of(model.parameters)}
        brought = brought_defaults({"model_type": name})
        other = ", ".join(f"`{key}={plain(value)}`" for key, value in brought.items() if key not in own)
        text = f"`model_type={name}` adds to the train step and the worker: {model.summary}"
        text += f" It has other defaults, its own or its task's: {other}." if other else ""
        sections.append(_section(f"model {name}", text, parameters_of(model.parameters)))
    sections.append(
        _section(
            "the training worker",
            "`python -m components.train.worker --dataset_dir FOLDER`: one Horovod process, started by the train step, "
            "by `horovodrun`, by `mpirun`, or alone. It takes the train step's parameters, except those that say how "
            "to start it, and these:",
            [p for p in parameters_of(WorkerParameters) if p.name not in _names("train")],
        )
    )
    return "\n".join(sections)


def _names(step: str) -> set[str]:
    return {parameter.name for parameter in parameters_of(STEPS[step].own)}


def _section(title: str, text: str, parameters: Iterable[Parameter]) -> str:
    lines = [f"## {title}", "", text, "", "| parameter | default | unit | meaning |", "|---|---|---|---|"]
    lines += [_row(parameter) for parameter in parameters]
    return "\n".join(lines) + "\n"


def _row(parameter: Parameter) -> str:
    name = f"`{parameter.name}`"
    if parameter.pipeline_name != parameter.name:
        name += f" [`{parameter.pipeline_name}`]"
    default = f"`{parameter.plain_default}`" if parameter.plain_default != "" else ""
    meaning = parameter.help + (f": {', '.join(parameter.choices)}" if parameter.choices else "")
    return f"| {name} | {default} | {parameter.unit} | {meaning} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
