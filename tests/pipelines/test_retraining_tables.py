"""Retraining of DLRM with the champion's vocabulary and weights; the steps run in the tests' process."""

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
from components.training_log import read_log
from pipelines.defaults import RETRAINING, TRAINING, Pipeline
from pipelines.definitions import training_arguments
from pipelines.local import arguments_of
from pipelines.parameters import step_parameters
from tests.train.in_process import InProcess

PIPELINE = Pipeline(RETRAINING, "dlrm")
GENERATED = {"synthetic_days": 2, "synthetic_values": 50}
VALUES: dict[str, Any] = {
    "epochs": 1, "train_seed": 1, "bootstrap_samples": 100, "preprocess_workers": 1, "tfrecord_workers": 1,
    "require_baseline": False, "auc_floor": 0.4, "embedding_dim": 4, "bottom_mlp_dims": "8,4", "top_mlp_dims": "8,1",
    "learning_rate": 0.01, "warmup_steps": 0, "global_batch_size": 250, "registered_model": "by dlrm",
    "warm_start": True,
}  # fmt: skip


def run_step(name: str, pipeline: Pipeline, values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Runs a step of a pipeline as KFP would wire it; returns its results."""
    step = STEPS[name]
    given = {p.name: values[p.pipeline_name] for p in step_parameters(step, pipeline)}
    declared = {p.name for p in parameters_of(step.parameters(pipeline.choices))} | set(step.chosen_by)
    chosen = {choice: value for choice, value in pipeline.choices.items() if choice in declared}
    folders = {each: str(folder / each) for each in (*step.inputs, *step.outputs)}
    return call(step, given | chosen, folders)


def retrain(prefix: Path, folder: Path) -> dict[str, Any]:
    """Finds and trains as ``kfrec run --pipeline=retraining`` does; returns registration.json."""
    values = arguments_of(PIPELINE, {**VALUES, "data_prefix": str(prefix)}, folder)
    found = run_step("find", PIPELINE, values, folder)
    assert found["proceed"]
    training = PIPELINE.of_kind(TRAINING)
    values = training_arguments(PIPELINE, values, found)
    for name in training.steps:
        run_step(name, training, values, folder)
    registration: dict[str, Any] = json.loads((folder / "registration" / "registration.json").read_text())
    return registration


def first_loss(model: Path) -> float:
    return float(next(each for each in read_log(model / "log.json") if len(each["step"]) == 2)["data"]["loss"])


@pytest.mark.slow
@pytest.mark.usefixtures("store")
def test_a_model_of_tables_goes_on_from_its_champion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_step, "launcher_of", lambda parameters: InProcess())
    prefix = tmp_path / "logs"
    registrations = []
    for night, rows in (("2026-11-01", 4000), ("2026-11-02", 6000)):
        generated = {"dataset": PIPELINE.choices["dataset"], "synthetic_impressions": rows, **GENERATED}
        call(STEPS["download"], generated, {"raw": str(prefix / night)})
        registrations.append(retrain(prefix, tmp_path / night))
    first, second = registrations
    assert (first["version"], first["alias"], first["vocabulary"]) == (1, "champion", "fitted")
    assert (second["version"], second["champion_version_before"], second["vocabulary"]) == (2, 1, "kept")
    assert second["rows"] > first["rows"] and "on the same samples" in second["reason"]
    # The ids are the champion's, so every row is carried over.
    champion, later = tmp_path / "2026-11-01" / "model", tmp_path / "2026-11-02" / "model"
    spec = load_feature_spec(later)
    names = [name for channel in (Channel.CATEGORICAL, Channel.MULTIHOT) for name in spec.channels.get(channel, ())]
    rows = sum((spec.features[name].cardinality or 0) + 1 for name in names)
    assert f", with {rows:,} rows of embeddings" in (later / "worker.log").read_text()
    assert first_loss(later) < first_loss(champion)
