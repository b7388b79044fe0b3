"""A training with two ranks, from raw files to the registered model, and predictions with it."""

from __future__ import annotations

import csv

from mlflow import MlflowClient

from pipelines.defaults import PREDICTION, Pipeline
from tests.cluster import kubectl as k8s
from tests.cluster.steps import BUCKET, Place, Run
from tests.cluster.suite.conftest import VALUES, read, store, training_of

MODEL = "kfrec-ctr"


def test_a_training_with_two_ranks_ends_with_a_registered_model(registered: Run, tracked: MlflowClient) -> None:
    result = training_of(registered)
    assert result["workers"] == VALUES["workers"] and len(result["epochs"]) == VALUES["epochs"]
    champion = tracked.get_model_version_by_alias(MODEL, "champion")
    assert champion.run_id


def test_a_finished_training_leaves_no_running_pod(place: Place, trained: Run) -> None:
    running = k8s.listed(place.namespace, "pods", "--field-selector=status.phase=Running")
    labels = [body["metadata"]["labels"] for body in running]
    assert not [found for found in labels if "training.kubeflow.org/job-name" in found]


def test_a_prediction_run_writes_scores_beside_the_rows(place: Place, registered: Run) -> None:
    rows = ["user,history,item", "A0000000000026,B000000029|B000000059,B000000010", "someone,,nothing"]
    store().put_object(Bucket=BUCKET, Key="rows/day.csv", Body="\n".join(rows).encode())
    run = Run(place, Pipeline(PREDICTION), {"rows": f"s3://{BUCKET}/rows/day.csv"})
    run.step("predict")
    written = read(f"s3://{BUCKET}/rows/day.scores.csv").decode()
    scored = list(csv.DictReader(written.splitlines()))
    assert [row["user"] for row in scored] == ["A0000000000026", "someone"]
    assert all(0 < float(row["probability"]) < 1 for row in scored)
    assert int(scored[1]["unknown_ids"]) == 2
