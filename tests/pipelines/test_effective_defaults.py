"""The defaults of every pipeline on both places, pinned: a change of one of them is on purpose, and seen in review."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from components import registry
from components.parameters import parameters_of, plain
from components.steps.catalog import STEPS, owners_of
from pipelines.defaults import TRAINING, Pipeline, cluster_defaults, every_pipeline, local_defaults
from pipelines.parameters import pipeline_parameters

_FILE = Path(__file__).with_name("effective_defaults.yaml")


def pipelines() -> list[Pipeline]:
    """Every model on its own data set, and on those that it has defaults for."""
    on_data = [
        Pipeline(TRAINING, model, data, "click" if data == "tabular" else "")
        for model in registry.names(registry.MODELS)
        for data in registry.model(model).dataset_defaults
    ]
    return [*every_pipeline(), *on_data]


def effective(pipeline: Pipeline) -> dict[str, dict[str, Any]]:
    """Place to the defaults that differ from those which a parameter is declared with."""
    groups = [step.own for step in STEPS.values()]
    groups += [group for owner in owners_of(pipeline.choices) for group in owner.groups]
    declared = {p.pipeline_name: p.plain_default for group in groups for p in parameters_of(group)}
    places = {"this machine": local_defaults(pipeline), "a cluster": cluster_defaults(pipeline)}
    return {
        place: {
            name: plain(parameter.default)
            for name, parameter in pipeline_parameters(pipeline, given).items()
            if plain(parameter.default) != declared[name]
        }
        for place, given in places.items()
    }


@pytest.mark.parametrize("pipeline", pipelines(), ids=lambda pipeline: pipeline.name)
def test_the_defaults_are_those_that_were_decided(pipeline: Pipeline) -> None:
    assert effective(pipeline) == yaml.safe_load(_FILE.read_text())[pipeline.name]


def test_no_pinned_pipeline_is_gone() -> None:
    assert set(yaml.safe_load(_FILE.read_text())) == {pipeline.name for pipeline in pipelines()}


if __name__ == "__main__":  # after a change on purpose: python -m tests.pipelines.test_effective_defaults
    _FILE.write_text(yaml.safe_dump({pipeline.name: effective(pipeline) for pipeline in pipelines()}))
