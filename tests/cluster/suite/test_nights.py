"""Nights on what is new: each continues the weights and moments of the champion, all of it through the bucket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from components.artifacts.reference import data_uri
from pipelines.defaults import INCREMENTAL, TRAINING, Pipeline
from tests.cluster.steps import BUCKET, Place, Run
from tests.cluster.suite.conftest import VALUES, read, store
from tests.pipelines.test_incremental_events import GIVEN, OWN, days_of_shop

_NAME, _PIPELINE = "nightly-lists", Pipeline(INCREMENTAL, "sasrec", "events")
_PODS = ("workers", "gpus_per_worker", "pod_cpu", "pod_memory", "shared_memory")
_OTHERS = ("warmup_steps", "preprocess_workers", "tfrecord_workers")
_GIVEN: dict[str, Any] = {
    **{name: value for name, value in GIVEN.items() if name not in _OTHERS},
    **OWN["sasrec"], **{name: VALUES[name] for name in _PODS},
    "registered_model": _NAME, "data_prefix": f"s3://{BUCKET}/nights",
}  # fmt: skip


def test_two_nights_of_events_continue_the_champion(place: Place, tracked: MlflowClient, tmp_path: Path) -> None:
    days = days_of_shop(tmp_path)

    def night(day: int) -> tuple[Run, dict[str, Any], dict[str, Any]]:
        version = f"2026-11-0{day}"
        store().put_object(Bucket=BUCKET, Key=f"nights/{version}/events_{day}.csv", Body=days[day - 1].encode())
        run = Run(place, _PIPELINE, _GIVEN)
        run.step("find")
        for task in _PIPELINE.of_kind(TRAINING).steps:
            run.step(task)
        tracked.set_registered_model_alias(_NAME, "champion", str(day))
        registered = json.loads(read(f"{run.uri('register', 'registration')}/registration.json"))
        return run, run.results("find"), registered

    first, found, registered = night(1)
    assert not found["continue_path"] and registered["vocabulary"] == "fitted"
    second, found, registered = night(2)
    assert found["continue_path"] == data_uri(first.uri("train", "model"))
    assert registered["vocabulary"] == "grown" and registered["admitted"] > 0 and registered["replayed"] > 0
    _, found, registered = night(3)
    assert found["continue_path"] == data_uri(second.uri("train", "model"))
    assert registered["vocabulary"] == "grown" and registered["replayed"] > 0
