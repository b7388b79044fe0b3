"""The form of the KFP UI: few fields, and everything else in one JSON object per step."""

from __future__ import annotations

from typing import Any

import pytest

from components import registry
from components.steps.catalog import STEPS
from pipelines.chain import chain_form, chain_of
from pipelines.cluster.submit import checked_for_cluster, inputs_of
from pipelines.defaults import RETRAINING, TRAINING, Pipeline, cluster_defaults, every_pipeline
from pipelines.form import field_names, form, options_name, pipeline_inputs
from pipelines.parameters import pipeline_parameters

# A person fills in so many fields; more are a page that nobody reads.
LARGEST = 25


def fields_of(pipeline: Pipeline) -> dict[str, Any]:
    return form(pipeline, pipeline_parameters(pipeline, cluster_defaults(pipeline)), field_names(pipeline))


@pytest.mark.parametrize("pipeline", every_pipeline(), ids=lambda pipeline: pipeline.name)
def test_a_form_is_one_that_a_person_can_fill_in(pipeline: Pipeline) -> None:
    shown = fields_of(pipeline)
    assert len(shown) <= LARGEST
    if pipeline.kind == TRAINING:
        wanted = {"source", "epochs", "global_batch_size", "workers", "pod_memory", "registered_model", "experiment"}
        assert wanted < set(shown)
    if pipeline.kind == RETRAINING:
        assert {"data_prefix", "force"} < set(shown)


@pytest.mark.parametrize(("first", "second"), [("electra", "electra_qa"), ("electra", "electra"), ("sasrec", "sim")])
def test_the_form_of_two_trainings_is_no_longer(first: str, second: str) -> None:
    shown = chain_form(chain_of(first, Pipeline(TRAINING, second)), cluster_defaults)
    assert len(shown) <= LARGEST and {"source", "epochs", "first_train_options", "train_options"} < set(shown)


@pytest.mark.parametrize("dataset", ["events", "tabular", "criteo"])
def test_each_parameter_can_be_given_in_the_form(dataset: str) -> None:
    """Each is a field, or is named by the field of its steps."""
    model = next(n for n in registry.names(registry.MODELS) if registry.model(n).dataset in (dataset, "amazon_reviews"))
    pipeline = Pipeline(RETRAINING, model, dataset)
    known, shown = pipeline_parameters(pipeline), fields_of(pipeline)
    given = pipeline_inputs(pipeline, {name: parameter.plain_default for name, parameter in known.items()})
    assert set(given) == set(shown)
    options = {name for step in STEPS for name in given.get(options_name(step), {})}
    assert options | (set(given) & set(known)) == set(known)
    for step in pipeline.steps:
        for name in given.get(options_name(step), {}):
            assert name in shown[options_name(step)].description


def test_set_fills_in_the_form_as_a_person_would() -> None:
    values = checked_for_cluster({"lr": "2e-3", "epochs": "2", "seed": "7", "train_seed": "1"}, Pipeline())
    assert inputs_of(values, Pipeline()) == {
        "epochs": 2,
        "download_options": {"seed": 7},
        "preprocess_options": {"seed": 7},
        "tfrecord_options": {"seed": 7},
        "train_options": {"lr": 0.002, "train_seed": 1},
    }
