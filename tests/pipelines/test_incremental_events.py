"""Nights of models of histories on what is new, whose steps run in the tests' process."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient

from components.artifacts import open_artifact
from components.feature_spec import load_feature_spec
from components.steps.catalog import STEPS
from components.steps.command import call
from components.train import step as train_step
from pipelines.defaults import INCREMENTAL, TRAINING, Pipeline, local_defaults
from pipelines.definitions import training_arguments
from pipelines.local import arguments_of
from tests.pipelines.test_retraining_tables import run_step
from tests.train.in_process import InProcess

OPENING, DAY = 1_704_067_200, 86_400
GIVEN: dict[str, Any] = {
    "epochs": 2, "train_seed": 1, "bootstrap_samples": 100, "preprocess_workers": 1, "tfrecord_workers": 1,
    "warmup_steps": 0, "global_batch_size": 250, "full_every": 3, "test_reviews": 0.2,
    "beat_baseline": False, "max_sequence_length": 12,
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "sasrec": {"admitted_rows": "category", "item_dim": 8, "feed_forward_dim": 16, "attention_layers": 1},
    "din": {"embedding_dim": 4, "mlp_dims": "8", "auc_floor": 0.4, "learning_rate": 0.01, "ranking_users": 0},
}


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return days_of_shop(tmp_path_factory.mktemp("shop"))


def days_of_shop(folder: Path) -> list[str]:
    """The events of each day of a shop whose items come and go."""
    shop = {"dataset": "events", "synthetic_shop_days": 8, "synthetic_users": 400, "synthetic_items": 300}
    call(STEPS["download"], {**shop, "synthetic_categories": 8}, {"raw": str(folder / "raw")})
    with gzip.open(folder / "raw" / "events.csv.gz", "rt") as file:
        header, *lines = file.readlines()
    numbers = np.array([(int(line.split(",")[2]) // 1000 - OPENING) // DAY for line in lines])
    # Events of the first days are one day's, so that users have histories.
    return [
        header + "".join(line for line, number in zip(lines, numbers, strict=True) if max(number, 3) == day)
        for day in range(3, 8)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["sasrec", "din"])
def test_nights_continue_the_champion(
    model: str, days: list[str], tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_step, "launcher_of", lambda parameters: InProcess())
    prefix, client, pipeline = tmp_path / "logs", MlflowClient(store, store), Pipeline(INCREMENTAL, model, "events")
    name = f"{model} by night"
    given = {**GIVEN, **OWN[model], "registered_model": name, "data_prefix": str(prefix)}
    known = arguments_of(pipeline, {}, tmp_path)
    given = {each: value for each, value in given.items() if each in known}

    def arrive(day: int, events: str = "") -> None:
        (prefix / f"2026-11-0{day + 1}").mkdir(parents=True)
        (prefix / f"2026-11-0{day + 1}" / f"events_{day}.csv").write_text(events or days[day])

    def night(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        values = arguments_of(pipeline, given, folder)
        found = run_step("find", pipeline, values, folder)
        values = training_arguments(pipeline, values, found)
        for name in pipeline.of_kind(TRAINING).steps:
            run_step(name, pipeline.of_kind(TRAINING), values, folder)
        body: dict[str, Any] = json.loads((folder / "registration" / "registration.json").read_text())
        return found, body

    arrive(1, days[0] + days[1].partition("\n")[2])
    found, first = night(tmp_path / "1")
    assert not found["continue_path"] and (first["alias"], first["vocabulary"]) == ("champion", "fitted")

    arrive(2)
    found, second = night(tmp_path / "2")
    assert found["files"] == "2026-11-02/events_1.csv,2026-11-03/events_2.csv"
    assert found["continue_path"] == str(tmp_path / "1" / "model")
    assert found["occasion"].endswith("The training continues version 1 with 2026-11-02 to 2026-11-03.")
    assert second["vocabulary"] == "grown" and second["admitted"] > 0 and second["replayed"] > 0
    assert 0 <= second["unknown_share"] < 0.5 and "on the same samples" in second["reason"]
    specs = [load_feature_spec(tmp_path / each / "model") for each in ("1", "2")]
    sizes = [{name: feature.cardinality for name, feature in spec.features.items() if feature.cardinality}
             for spec in specs]  # fmt: skip
    assert sizes[0] == sizes[1]
    assert specs[0].cuts["train_end"] < specs[1].cuts["train_end"]
    rows = [open_artifact(tmp_path / each / "tfrecord").rows["train"] for each in ("1", "2")]
    assert 0 < rows[1] < rows[0]
    log = (tmp_path / "2" / "model" / "worker.log").read_text()
    assert (
        f"continuing the weights and moments of {tmp_path}/1/model" in log and "rows of embeddings start afresh" in log
    )
    metrics = json.loads((tmp_path / "2" / "evaluation" / "metrics.json").read_text())
    new, others = metrics["by_new_ids"]
    assert (new["category"], others["category"]) == ("with newly admitted ids", "all others")
    assert new["rows"] > 0 < others["rows"] and new["rows"] + others["rows"] == metrics["test_rows"]
    report = (tmp_path / "2" / "evaluation" / "report.html").read_text()
    assert "on newly admitted ids" in report and "unknown in the test split" in report

    client.set_registered_model_alias(name, "champion", "2")
    arrive(3)
    found, third = night(tmp_path / "3")
    assert found["continue_path"] == str(tmp_path / "2" / "model") and third["vocabulary"] == "grown"
    assert found["occasion"].endswith("with 2026-11-03 to 2026-11-04, and reads histories of 2026-11-02.")

    client.set_registered_model_alias(name, "champion", "3")
    arrive(4)
    found = run_step("find", pipeline, arguments_of(pipeline, given, tmp_path / "4"), tmp_path / "4")
    assert found["occasion"].endswith("All 4 versions train, as once in 3 nights.") and not found["workflow"]


def test_a_night_is_no_refit_whatever_the_task_says() -> None:
    assert local_defaults(Pipeline(TRAINING, "sasrec", "events"))["refit"] is True
    assert local_defaults(Pipeline(INCREMENTAL, "sasrec", "events"))["refit"] is False
