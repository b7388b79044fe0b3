"""``kfrec parameters``: the parameters of a model's pipelines."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from components.parameters import Parameter
from components.secrets import without_password
from components.steps.catalog import STEPS
from pipelines.cli.options import WORKDIR, add_after, add_pipeline, add_set, pipeline_of
from pipelines.defaults import CLUSTER_DEFAULTS, PIPELINES, TRAINING, Pipeline, whose_defaults
from pipelines.parameters import checked, parse_assignment, step_parameters

SUMMARY = "list the parameters of a model's pipelines, with the values that kfrec run has"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pipeline(parser)
    add_set(parser)
    add_after(parser)


def execute(options: argparse.Namespace) -> int:
    """Lists every pipeline parameter by step, a shared one only under its first step: name, value, meaning, default.

    The value is that of ``kfrec run`` with the same options. The default is the step's own, which ``kfrec submit`` has.
    """
    pipeline = pipeline_of(options)
    assignments = dict(parse_assignment(text) for text in options.set)
    checked({}, pipeline)
    print(f"  {'parameter':<32} {'kfrec run':<24} meaning")
    if not options.after:
        _list(pipeline, (*PIPELINES, pipeline.kind), assignments)
        return 0
    from pipelines.chain import FIRST, chain_of, divided

    chain = chain_of(options.after, pipeline)
    first, second = divided(chain, assignments)
    _list(chain.first, (TRAINING,), first, chain.shared, FIRST)
    _list(chain.second, (TRAINING,), second, chain.linked)
    return 0


def _list(
    pipeline: Pipeline,
    kinds: Collection[str],
    assignments: Mapping[str, str],
    left_out: Collection[str] = (),
    prefix: str = "",
) -> None:
    from pipelines.local import arguments_of

    values: dict[str, Any] = {}
    whose: dict[str, str] = {}
    for kind in kinds:
        of_kind = pipeline.of_kind(kind)
        arguments = arguments_of(of_kind, assignments if kind == pipeline.kind else {}, Path(WORKDIR))
        owners = whose_defaults(of_kind)
        values |= arguments
        whose |= {name: owners.get(name, "") for name in arguments}
    seen = set(left_out)
    for step in STEPS.values():
        print(f"{step.name}: {step.summary}")
        for parameter in step_parameters(step, pipeline):
            name = parameter.pipeline_name
            if name not in seen and name in values:
                seen.add(name)
                notes = _notes(parameter, values[name], "" if name in assignments else whose.get(name, ""))
                print(f"  {prefix + name:<32} {_shown(values[name]):<24} {parameter.description}{notes}")
        print()


def _shown(value: object) -> str:
    return without_password(str(value)) if value != "" else "(empty)"


def _notes(parameter: Parameter, value: object, whose: str) -> str:
    """Whose default the value of a local run is, and what a cluster has, where they are not the step's."""
    notes = [f"{value!r} is the default of {whose}"] if whose else []
    if parameter.pipeline_name in CLUSTER_DEFAULTS:
        notes.append(f"kfrec submit has {CLUSTER_DEFAULTS[parameter.pipeline_name]!r}")
    return "".join(f"; {note}" for note in notes)
