"""The served image: its answers, the log of served rows in the store, and what came of them."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from mlflow import MlflowClient

from components.artifacts.reference import data_uri
from pipelines.defaults import FEEDBACK, Pipeline
from pipelines.serving import PORT, inference_service
from tests.cluster import kubectl as k8s
from tests.cluster.steps import BUCKET, Place, Run
from tests.cluster.suite.conftest import forwarded, read, store

MODEL = "kfrec-ctr"
POD = "kfrec-served"
SERVED = "served-rows"
ROWS = [{"user": "A0000000000026", "history": ["B000000029"], "item": f"B0000000{item}"} for item in (10, 29, 55, 59)]


@contextmanager
def pod_of(place: Place, version: str) -> Iterator[str]:
    """The pod that KServe makes of the InferenceService, and the address of its server; it ends as KServe ends it."""
    log = f"s3://{BUCKET}/{SERVED}"
    service = inference_service(MODEL, version, POD, place.registry, alias="champion", log=log)
    spec = service["spec"]["predictor"]
    spec.pop("minReplicas")
    spec["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "3Gi"}}
    metadata = {"name": POD, "namespace": place.namespace, "labels": service["metadata"]["labels"]}
    k8s.apply([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "restartPolicy": "Never"}}])
    try:
        k8s.kubectl("-n", place.namespace, "wait", f"pod/{POD}", "--for=condition=Ready", "--timeout=300s")
        with forwarded(place.namespace, f"pod/{POD}", PORT) as url:
            yield url
    finally:
        k8s.kubectl("-n", place.namespace, "delete", "pod", POD, "--wait=true")


def answered(url: str, request: str) -> list[float]:
    """The probabilities of the rows of a request with this id."""
    body = json.dumps({"dataframe_records": ROWS}).encode()
    headers = {"Content-Type": "application/json", "X-Request-Id": request}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/invocations", body, headers)) as answer:
        assert answer.headers["X-Request-Id"] == request
        return [row["probability"] for row in json.load(answer)["predictions"]]


def test_what_the_served_image_answers_is_logged_and_measured(
    place: Place, registered: Run, tracked: MlflowClient
) -> None:
    version = str(tracked.get_model_version_by_alias(MODEL, "champion").version)
    with pod_of(place, version) as url:
        scores = [answered(url, request) for request in ("first", "second")]
        with urllib.request.urlopen(f"{url}/metrics") as metrics:
            assert f'kfrec_model_info{{model="{MODEL}",version="{version}"}} 1' in metrics.read().decode()
    assert scores[0] == pytest.approx(scores[1], abs=1e-6) and all(0 < score < 1 for score in scores[0])
    # A pod that is deleted writes what it holds before it ends.
    (written,) = store().list_objects_v2(Bucket=BUCKET, Prefix=f"{SERVED}/").get("Contents", ())
    assert written["Key"].startswith(f"{SERVED}/{time.strftime('%Y-', time.gmtime())}")

    store().put_object(Bucket=BUCKET, Key="outcomes/clicks.csv", Body=b"request_id,row\nfirst,0\nsecond,2\nother,1\n")
    values = {
        "model_version": f"{MODEL}/{version}", "served": f"s3://{BUCKET}/{SERVED}",
        "outcomes": f"s3://{BUCKET}/outcomes", "attribution_window": 0.0, "label_wait": 0.0,
    }  # fmt: skip
    run = Run(place, Pipeline(FEEDBACK), values)
    run.step("feedback")
    live = json.loads(read(f"{data_uri(run.uri('feedback', 'feedback'))}/live.json"))
    assert live["total"]["live_positives"] == 2 and live["counts"]["unmatched"] == 1
    assert [(day["version"], day["skew_share"]) for day in live["days"]] == [(version, 0)]
