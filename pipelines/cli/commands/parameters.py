"""``kfrec parameters``: the parameters of a model's pipelines."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from components.secrets import without_password
from components.steps.catalog import STEPS
from pipelines.cli.options import WORKDIR, add_after, add_pipeline, add_set, pipeline_of
from pipelines.defaults import CLUSTER_DEFAULTS, PIPELINES, TRAINING, Pipeline, whose_defaults
from pipelines.parameters import checked, parse_assignment, pipeline_parameters, step_parameters

SUMMARY = "list the parameters of a model's pipelines, with the values that kfrec run has"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pipeline(parser)
    add_set(parser)
    add_after(parser)


def execute(options: argparse.Namespace) -> int:
    """Lists every pipeline parameter by step, a shared one only under its first step: name, value, origin, meaning.

    The value is that of ``kfrec run`` with the same options; where ``kfrec submit`` has another one, it follows.
    """
    pipeline = pipeline_of(options)
    assignments = dict(parse_assignment(text) for text in options.set)
    checked({}, pipeline)
    print(f"  {'parameter':<32} {'kfrec run':<24} {'from':<28} meaning")
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
    on_cluster: dict[str, Any] = {}
    for kind in kinds:
        of_kind = pipeline.of_kind(kind)
        arguments = arguments_of(of_kind, assignments if kind == pipeline.kind else {}, Path(WORKDIR))
        owners = whose_defaults(of_kind)
        values |= arguments
        whose |= {name: owners.get(name, "step") for name in arguments}
        on_cluster |= {n: p.plain_default for n, p in pipeline_parameters(of_kind, CLUSTER_DEFAULTS).items()}
    whose |= {"cache_dir": "this machine"} | dict.fromkeys(assignments, "you")
    seen = set(left_out)
    for step in STEPS.values():
        print(f"{step.name}: {step.summary}")
        for parameter in step_parameters(step, pipeline):
            name = parameter.pipeline_name
            if name not in seen and name in values:
                seen.add(name)
                is_other = name not in assignments and on_cluster[name] != values[name]
                note = f"; kfrec submit has {_shown(on_cluster[name])}" if is_other else ""
                shown = f"{_shown(values[name]):<24} {whose[name]:<28}"
                print(f"  {prefix + name:<32} {shown} {parameter.description}{note}")
        print()


def _shown(value: object) -> str:
    return without_password(str(value)) if value != "" else "(empty)"
