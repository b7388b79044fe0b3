"""Packages beside kfrec bring data sets, models and tasks that kfrec's own are unlike, and run from end to end."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import yaml

from components import registry
from components.feature_spec import Feature, FeatureSpec
from components.steps.command import DEFAULTS
from pipelines.cli import main
from tests.pipelines.conftest import Run
from tests.pipelines.installed import installed

_GIVEN = ("train_seed=1", "bootstrap_samples=100", "tfrecord_workers=1")


@pytest.fixture
def package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with installed(request.param, tmp_path / "site", monkeypatch):
        yield request.param


@pytest.fixture
def run(in_process: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    """``kfrec run`` of a model, with small sizes."""

    def run_model(model: str, workers: int, *assigned: str) -> Run:
        given = [word for value in (*_GIVEN, *assigned) for word in ("--set", value)]
        return in_process(tmp_path / "runs", "--model", model, "--workers", str(workers), *given)

    return run_model


def of(package: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("package", [package], indirect=True)


def file_of(run: Run, artifact: str, name: str) -> Path:
    return Path(run.summary["artifacts"][artifact]) / name


def trained(run: Run) -> dict[str, Any]:
    return json.loads(file_of(run, "model", "training.json").read_text())


@pytest.mark.slow
@of("regression")
def test_it_compiles_to_pipelines_with_its_own_parameters(package: str, tmp_path: Path) -> None:
    assert main(["compile", "--model", "trip_time", "--output", str(tmp_path)]) == 0
    spec = next(yaml.load_all((tmp_path / "trip-time-training.yaml").read_text(), yaml.CSafeLoader))
    constants = [
        task["inputs"]["parameters"].get(DEFAULTS, {}).get("runtimeValue", {}).get("constant", {})
        for task in spec["root"]["dag"]["tasks"].values()
    ]
    shown = {*spec["root"]["inputDefinitions"]["parameters"], *(name for constant in constants for name in constant)}
    assert {"width", "table_lr", "dense_lr", "synthetic_trips", "test_share", "rmse_limit", "epochs"} <= shown
    assert not {"embedding_dim", "lr", "synthetic_users", "max_sequence_length", "baseline_samples"} & shown


@pytest.mark.slow
@of("regression")
def test_a_float_label_is_learned_and_the_lower_error_becomes_champion(
    package: str, run: Callable[..., Run], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first, better = run("trip_time", 1, "epochs=1", "rmse_limit=100"), run("trip_time", 1)
    assert first.summary["registered"]["model"] == "trip-time"
    assert first.summary["registered"]["alias"] == better.summary["registered"]["alias"] == "champion"
    assert ": better by " in better.summary["registered"]["reason"]
    assert set(better.summary["metrics"]) == {
        "test_rmse", "train_rmse", "train_samples_per_second", "time_to_train"
    }  # fmt: skip
    rmse = better.summary["metrics"]["test_rmse"]
    assert rmse < first.summary["metrics"]["test_rmse"] and rmse < 0.9
    assert f"Off by {rmse:.1f} minutes" in Path(better.summary["artifacts"]["report"]).read_text()
    spec = yaml.safe_load(file_of(better, "tfrecord", "feature_spec.yaml").read_text())
    assert spec["feature_spec"]["minutes"] == {"dtype": "float32"}
    assert spec["feature_spec"]["stops"]["dimensions"] == [3]

    predictions = pq.read_table(file_of(better, "evaluation", "predictions.parquet"))
    assert predictions.column_names == ["minutes", "predicted_minutes"] and len(predictions) == 800
    errors = predictions["predicted_minutes"].to_numpy() - predictions["minutes"].to_numpy()
    assert np.sqrt(np.square(errors, dtype=np.float64).mean()) == pytest.approx(rmse)

    rows = tmp_path / "new.csv"
    rows.write_text("zone,stops,distance\n2,1|3,1.5\n99,,0.5\n")
    words = ["trip-time@champion", "--input", str(rows), "--output", str(tmp_path / "scored.csv")]
    assert main(["predict", *words, "--workdir", str(tmp_path / "runs")]) == 0
    with (tmp_path / "scored.csv").open() as file:
        scored = list(csv.DictReader(file))
    assert [row["unknown_ids"] for row in scored] == ["0", "1"]
    assert float(scored[0]["predicted_minutes"]) > float(scored[1]["predicted_minutes"])


@pytest.mark.slow
@of("two_outputs")
def test_two_labels_are_learned_by_two_outputs(
    package: str, run: Callable[..., Run], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = run("video", 1)
    metrics = first.summary["metrics"]
    assert metrics["test_logloss"] < 0.6 and metrics["test_seconds"] < 4
    assert first.summary["registered"]["alias"] == "champion"
    log = [json.loads(line[5:]) for line in file_of(first, "model", "log.json").read_text().splitlines()]
    (step,) = [line["data"] for line in log if line["step"] == [1, 1]]
    assert step["loss"] == pytest.approx(step["click"] + step["seconds"], rel=1e-4)

    predictions = pq.read_table(file_of(first, "evaluation", "predictions.parquet"))
    assert predictions.column_names == ["clicked", "seconds", "probability", "expected_seconds"]
    assert {len(row) for row in predictions["expected_seconds"].to_pylist()} == {3}

    second = run("video", 1, "epochs=1")
    assert second.summary["registered"]["alias"] == "challenger"
    assert "of champion version 1 on the same samples" in second.summary["registered"]["reason"]
    capfd.readouterr()
    runs = [Path(each.out.splitlines()[-1]).parent.name for each in (first, second)]
    assert main(["compare", *runs, "--workdir", str(tmp_path / "runs")]) == 0
    assert "test log loss 0." in capfd.readouterr().out

    rows = tmp_path / "new.jsonl"
    rows.write_text('{"user": 1, "video": 4}\n{"user": 99, "video": 4}\n')
    words = ["watching@champion", "--input", str(rows), "--output", str(tmp_path / "scored.jsonl")]
    assert main(["predict", *words, "--workdir", str(tmp_path / "runs")]) == 0
    scored = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text().splitlines()]
    assert [len(row["expected_seconds"]) for row in scored] == [3, 3]
    assert [row["unknown_ids"] for row in scored] == [0, 1]

    served = mlflow.pyfunc.load_model("models:/watching@champion")
    answered = served.predict(pd.DataFrame({"user": [1, 99], "video": [4, 4]}))
    assert answered["probability"].tolist() == pytest.approx([row["probability"] for row in scored], rel=1e-4)
    assert np.stack(answered["expected_seconds"]).shape == (2, 3)


@of("retrieval")
def test_padding_samples_are_no_negatives(package: str) -> None:
    definition = registry.model("towers")
    features = {name: Feature(name, "int64", 9) for name in ("user", "item")} | {"share": Feature("share", "float32")}
    spec = FeatureSpec(features, {}, {name: (name,) for name in features})
    model = definition.build(definition.parameters(), spec, 1, False)

    def losses(rows: int, mask: list[bool]) -> np.ndarray:
        batch: dict[str, list[Any]] = {"user": [1, 2, 3, 3], "item": [4, 5, 6, 7], "share": [0.5, 0.25, 0.125, 0.125]}
        given = {name: tf.constant(values[:rows]) for name, values in batch.items()}
        return model.loss_terms(given, {}, tf.constant(mask))[1]["softmax"].total.numpy()[:3]

    np.testing.assert_allclose(losses(4, [True, True, True, False]), losses(3, [True] * 3), rtol=1e-5)
    assert (losses(4, [True] * 4) > losses(3, [True] * 3)).all()


@pytest.mark.slow
@of("retrieval")
def test_two_towers_learn_without_a_label_the_same_on_two_ranks_as_on_one(
    package: str, run: Callable[..., Run], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    alone, two = run("towers", 1), run("towers", 2)
    losses = [[epoch["train_loss"] for epoch in trained(each)["epochs"]] for each in (alone, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0][-1] < losses[0][0]
    assert alone.summary["metrics"]["test_hit_rate"] > 0.3
    assert alone.summary["registered"]["alias"] == "champion"
    assert two.summary["registered"]["alias"] == "challenger"
    rows, scored = tmp_path / "new.csv", tmp_path / "scored.csv"
    rows.write_text("user\n1\n")
    words = ["towers@champion", "--input", str(rows), "--output", str(scored), "--workdir", str(tmp_path / "runs")]
    assert main(["predict", *words]) == 2
    assert "the data set baskets encodes no raw rows, because its vectors are looked up" in capfd.readouterr().err

    spec = yaml.safe_load(file_of(two, "tfrecord", "feature_spec.yaml").read_text())
    assert "label" not in spec["channel_spec"]
    predictions = pq.read_table(file_of(two, "evaluation", "predictions.parquet"))
    assert predictions.column_names == ["user_vector", "item_vector", "item"]
    assert {len(row) for row in predictions["user_vector"].to_pylist()} == {8}

    runs = [Path(each.out.splitlines()[-1]).parent.name for each in (alone, two)]
    assert main(["compare", *runs, "--workdir", str(tmp_path / "runs")]) == 0
    assert "test hit rate 0." in capfd.readouterr().out
    served = mlflow.pyfunc.load_model("models:/towers@champion")
    answered = served.predict({name: np.array([1, 2]) for name in ("user", "item")})
    assert {name: values.shape for name, values in answered.items()} == {"user_vector": (2, 8), "item_vector": (2, 8)}
