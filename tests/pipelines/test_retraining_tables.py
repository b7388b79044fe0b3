"""Retraining of DLRM and Wide & Deep with the champion's vocabulary and weights; steps run in the tests' process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.feature_spec import Channel, load_feature_spec
from components.parameters import parameters_of
from components.steps.catalog import STEPS
from components.steps.command import call
from components.train import step as train_step
from components.train.loop.log import read_log
from pipelines.defaults import RETRAINING, TRAINING, Pipeline
from pipelines.local import arguments_of
from pipelines.parameters import step_parameters
from pipelines.retraining import training_arguments
from tests.train.in_process import InProcess

# The parameter that is the size of a synthetic data set, its value, and the other ones.
GENERATED: dict[str, tuple[str, int, dict[str, int]]] = {
    "dlrm": ("synthetic_impressions", 4000, {"synthetic_days": 2, "synthetic_values": 50}),
    "wide_and_deep": ("synthetic_displays", 800, {"synthetic_ads": 60, "synthetic_documents": 100}),
}
SMALL: dict[str, dict[str, Any]] = {
    "dlrm": {
        "embedding_dim": 4, "bottom_mlp_dims": "8,4", "top_mlp_dims": "8,1", "learning_rate": 0.01, "warmup_steps": 0,
        "global_batch_size": 250, "auc_floor": 0.4,
    },
    "wide_and_deep": {
        "embedding_dim": 4, "deep_hidden_units": "8", "largest_buckets": 100, "map_floor": 0.3,
        "global_batch_size": 500,
    },
}  # fmt: skip
SHARED = {
    "epochs": 1, "train_seed": 1, "bootstrap_samples": 100, "preprocess_workers": 1, "tfrecord_workers": 1,
    "require_baseline": False,
}  # fmt: skip


def run_step(name: str, pipeline: Pipeline, values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Runs a step of a pipeline as KFP would wire it; returns its results."""
    step = STEPS[name]
    given = {p.name: values[p.pipeline_name] for p in step_parameters(step, pipeline)}
    declared = {p.name for p in parameters_of(step.parameters(pipeline.choices))} | set(step.chosen_by)
    chosen = {choice: value for choice, value in pipeline.choices.items() if choice in declared}
    folders = {each: str(folder / each) for each in (*step.inputs, *step.outputs)}
    return call(step, given | chosen, folders)


def retrain(pipeline: Pipeline, prefix: Path, folder: Path) -> dict[str, Any]:
    """Finds and trains as ``kfrec run --pipeline=retraining`` does; returns registration.json."""
    given = {**SHARED, **SMALL[pipeline.model], "data_prefix": str(prefix), "registered_model": f"by {pipeline.model}"}
    values = arguments_of(pipeline, {**given, "warm_start": True}, folder)
    found = run_step("find", pipeline, values, folder)
    assert found["proceed"]
    training = pipeline.of_kind(TRAINING)
    values = training_arguments(training, values, found)
    for name in training.steps:
        run_step(name, training, values, folder)
    registration: dict[str, Any] = json.loads((folder / "registration" / "registration.json").read_text())
    return registration


def first_loss(model: Path) -> float:
    return float(next(each for each in read_log(model / "log.json") if len(each["step"]) == 2)["data"]["loss"])


@pytest.mark.slow
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("model", GENERATED)
def test_a_model_of_tables_goes_on_from_its_champion(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_step, "launcher_of", lambda parameters: InProcess())
    pipeline, prefix = Pipeline(RETRAINING, model), tmp_path / "logs"
    size, smaller, others = GENERATED[model]
    registrations = []
    for night, larger in (("2026-11-01", smaller), ("2026-11-02", smaller * 3 // 2)):
        generated = {"dataset": pipeline.choices["dataset"], size: larger, **others}
        call(STEPS["download"], generated, {"raw": str(prefix / night)})
        registrations.append(retrain(pipeline, prefix, tmp_path / night))
    first, second = registrations
    assert (first["version"], first["alias"], first["vocabulary"]) == (1, "champion", "fitted")
    assert (second["version"], second["champion_version_before"], second["vocabulary"]) == (2, 1, "kept")
    assert second["rows"] > first["rows"] and "on the same samples" in second["reason"]
    # The ids are the champion's, so every row is carried over; Wide & Deep has two tables of a feature.
    champion, later = tmp_path / "2026-11-01" / "model", tmp_path / "2026-11-02" / "model"
    spec = load_feature_spec(later)
    names = [name for channel in (Channel.CATEGORICAL, Channel.MULTIHOT) for name in spec.channels.get(channel, ())]
    rows = sum((spec.features[name].cardinality or 0) + 1 for name in names) * (2 if model == "wide_and_deep" else 1)
    assert f", with {rows:,} rows of embeddings" in (later / "worker.log").read_text()
    assert first_loss(later) < first_loss(champion)
