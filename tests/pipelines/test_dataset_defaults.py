"""A model's defaults for a data set: wherever its pipeline runs, and as they are printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from components import registry
from components.errors import KfrecError
from pipelines.cli import main
from pipelines.cluster.submit import checked_for_cluster
from pipelines.defaults import TRAINING, Pipeline, cluster_defaults
from pipelines.local import arguments_of
from pipelines.parameters import checked, pipeline_parameters


def _pipelines() -> Iterator[Pipeline]:
    for model in registry.names(registry.MODELS):
        for dataset in registry.model(model).dataset_defaults:
            yield Pipeline(TRAINING, model, dataset, "click")


EVERY = list(_pipelines())


@pytest.mark.parametrize("pipeline", EVERY, ids=lambda pipeline: pipeline.name)
def test_what_is_printed_is_what_runs(pipeline: Pipeline, tmp_path: Path) -> None:
    printed = {name: each.plain_default for name, each in pipeline_parameters(pipeline).items()}
    run = arguments_of(pipeline, {}, tmp_path)
    assert {name: run[name] for name in printed if name != "cache_dir"} == {
        name: value for name, value in printed.items() if name != "cache_dir"
    }
    submitted = pipeline_parameters(pipeline, cluster_defaults(pipeline))
    assert {name for name, each in submitted.items() if each.plain_default != printed[name]} == set(
        cluster_defaults(pipeline)
    )


@pytest.mark.parametrize("pipeline", EVERY, ids=lambda pipeline: pipeline.name)
def test_the_defaults_name_parameters_and_are_valid(pipeline: Pipeline) -> None:
    given = registry.model(pipeline.model).dataset_defaults[pipeline.choices["dataset"]]
    assert checked({}, pipeline) == {} == checked_for_cluster({}, pipeline)
    known = pipeline_parameters(pipeline)
    assert {name: known[name].default for name in given} == given


@pytest.mark.parametrize("model", ["wide_and_deep", "dlrm", "dcn_v2"])
def test_on_the_models_own_data_set_the_published_defaults_stay(model: str) -> None:
    own, tabular = (pipeline_parameters(Pipeline(TRAINING, model, dataset)) for dataset in ("", "tabular"))
    assert not own["batch_normalization"].default and own["embedding_l2"].default == 0
    assert own["global_batch_size"].default > tabular["global_batch_size"].default


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parameters", "--model", "wide_and_deep", "--dataset", "tabular", "--task", "click"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["batch_normalization"]]
    assert "true" in line.lower()


@pytest.mark.parametrize("model", ["wide_and_deep", "dlrm", "dcn_v2"])
def test_normalisation_over_workers_that_xla_compiles_is_refused_before_the_first_step(model: str) -> None:
    pipeline = Pipeline(TRAINING, model, "tabular", "click")
    with pytest.raises(KfrecError, match="xla=True: XLA cannot compile the batch normalisation of workers=2"):
        checked({"xla": True, "workers": 2}, pipeline)
    assert checked({"xla": True}, pipeline) and checked({"workers": 2}, pipeline)
