"""Nights of DLRM on what is new, whose steps run in the tests' process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient

from components.artifacts import open_artifact
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.steps.catalog import STEPS
from components.steps.command import call
from components.train import step as train_step
from pipelines.defaults import INCREMENTAL, TRAINING, Pipeline, every_pipeline
from pipelines.definitions import training_arguments
from pipelines.local import arguments_of
from tests.pipelines.test_retraining_tables import VALUES, run_step
from tests.train.in_process import InProcess

PIPELINE = Pipeline(INCREMENTAL, "dlrm")
ROWS, NAME = 1200, "by night"
GIVEN: dict[str, Any] = VALUES | {
    "registered_model": NAME, "warm_start": False, "full_every": 3, "frequency_threshold": 4, "test_day_share": 1.0,
}  # fmt: skip


def night(prefix: Path, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What find says, and registration.json if it proceeds."""
    values = arguments_of(PIPELINE, {**GIVEN, "data_prefix": str(prefix)}, folder)
    found = run_step("find", PIPELINE, values, folder)
    values = training_arguments(PIPELINE, values, found)
    for name in PIPELINE.of_kind(TRAINING).steps:
        run_step(name, PIPELINE.of_kind(TRAINING), values, folder)
    body: dict[str, Any] = json.loads((folder / "registration" / "registration.json").read_text())
    return found, body


def find(prefix: Path, folder: Path) -> dict[str, Any]:
    return run_step("find", PIPELINE, arguments_of(PIPELINE, {**GIVEN, "data_prefix": str(prefix)}, folder), folder)


@pytest.mark.slow
def test_nights_continue_the_champion_until_one_trains_on_everything(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_step, "launcher_of", lambda parameters: InProcess())
    generated = {"dataset": "criteo", "synthetic_impressions": 6 * ROWS, "synthetic_days": 6, "synthetic_values": 300}
    call(STEPS["download"], generated, {"raw": str(tmp_path / "days")})
    prefix, client = tmp_path / "logs", MlflowClient(store, store)

    def arrive(*days: int) -> None:
        for day in days:
            (prefix / f"2026-11-0{day + 1}").mkdir(parents=True)
            (tmp_path / "days" / f"day_{day}").rename(prefix / f"2026-11-0{day + 1}" / f"day_{day}")

    arrive(0, 1)
    found, first = night(prefix, tmp_path / "1")
    assert found["files"] == "2026-11-01/day_0,2026-11-02/day_1" and not found["continue_path"]
    assert found["occasion"].endswith("All 2 versions train, since there is no champion to continue.")
    assert (first["alias"], first["vocabulary"]) == ("champion", "fitted")

    arrive(2)
    found, second = night(prefix, tmp_path / "2")
    assert found["files"] == "2026-11-01/day_0,2026-11-02/day_1,2026-11-03/day_2"
    assert found["continue_path"] == str(tmp_path / "1" / "model")
    assert found["occasion"] == (
        "Data version 2026-11-03 has 1,200 rows that the champion's 2026-11-02 lacks. The training continues version 1 "
        "with 2026-11-02 to 2026-11-03, and replays rows of 2026-11-01."
    )
    assert open_artifact(tmp_path / "2" / "tfrecord").rows["train"] == ROWS + ROWS // 10
    assert second["vocabulary"] == "grown" and second["admitted"] > 0 and second["replayed"] == ROWS // 10
    metrics = json.loads((tmp_path / "2" / "evaluation" / "metrics.json").read_text())
    new, others = metrics["by_new_ids"]
    assert (new["category"], others["category"]) == ("with newly admitted ids", "all others")
    assert new["rows"] > 0 < others["rows"] and new["rows"] + others["rows"] == ROWS
    report = (tmp_path / "2" / "evaluation" / "report.html").read_text()
    assert "AUC on newly admitted ids" in report and "unknown in the test split" in report
    assert "by_new_ids" not in json.loads((tmp_path / "1" / "evaluation" / "metrics.json").read_text())
    assert 0 < second["unknown_share"] < 1 and "on the same samples" in second["reason"]
    log = (tmp_path / "2" / "model" / "worker.log").read_text()
    assert f"continuing the weights and moments of {tmp_path}/1/model" in log
    # Weights change hands only where ids do: of each value that was admitted or evicted, one row.
    assert f"; {second['admitted']:,} rows of embeddings start afresh" in log
    sizes = [
        {name: feature.cardinality for name, feature in load_feature_spec(tmp_path / each / "model").features.items()}
        for each in ("1", "2")
    ]
    assert sizes[0] == sizes[1]

    # A night that was missed is caught up once.
    client.set_registered_model_alias(NAME, "champion", "2")
    arrive(3, 4)
    found, third = night(prefix, tmp_path / "3")
    assert found["files"].endswith("2026-11-03/day_2,2026-11-04/day_3,2026-11-05/day_4")
    assert "Data version 2026-11-05 has 2,400 rows" in found["occasion"]
    assert open_artifact(tmp_path / "3" / "tfrecord").rows["train"] == 2 * ROWS + ROWS // 5
    assert third["vocabulary"] == "grown"

    arrive(5)
    client.set_registered_model_alias(NAME, "champion", "3")
    found = find(prefix, tmp_path / "4")
    assert found["occasion"].endswith("All 6 versions train, as once in 3 nights.")
    assert (found["continue_path"], found["workflow"], found["files"].count(",")) == ("", "", 5)


def test_the_compiled_pipeline_trains_on_what_find_says(compiled_ir: Callable[[Pipeline], str]) -> None:
    spec, _ = yaml.load_all(compiled_ir(PIPELINE), yaml.CSafeLoader)
    (inner,) = (task for name, task in spec["root"]["dag"]["tasks"].items() if name != "find")
    passed = inner["inputs"]["parameters"]
    for name in ("files", "continue_path", "workflow", "data_version"):
        assert passed[f"pipelinechannel--find-{name}"]["taskOutputParameter"]["outputParameterKey"] == name
    find = spec["root"]["dag"]["tasks"]["find"]["inputs"]["parameters"]
    assert find["defaults"]["runtimeValue"]["constant"]["full_every"] == 7


def test_a_data_set_whose_vocabulary_cannot_grow_is_one_line(tmp_path: Path) -> None:
    for name in ("movielens", "amazon_reviews"):
        refused = (
            f"--pipeline incremental: the vocabulary of data set {name} cannot grow, as those of criteo and events "
        )
        with pytest.raises(KfrecError, match=refused):
            arguments_of(Pipeline(INCREMENTAL, "sasrec", name), {}, tmp_path)
    kinds = {(pipeline.model, pipeline.kind) for pipeline in every_pipeline()}
    assert ("dlrm", INCREMENTAL) in kinds and ("sasrec", INCREMENTAL) not in kinds
