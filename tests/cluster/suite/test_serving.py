"""The served image: its answers, the log of served rows in the store, and what came of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest
import requests
from mlflow import MlflowClient

from components.artifacts.reference import data_uri
from components.tracking.standing import promote, roll_back
from pipelines.defaults import FEEDBACK, Pipeline
from pipelines.serving import PORT, inference_service
from tests.cluster import kubectl as k8s
from tests.cluster.steps import BUCKET, Place, Run
from tests.cluster.suite.conftest import forwarded, read, store

MODEL = "kfrec-ctr"
POD = "kfrec-served"
SERVED = "served-rows"
# Seconds after which kubectl's tunnel is broken.
_STUCK = 60.0
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


def answered(session: requests.Session, url: str, request: str) -> list[float]:
    """The probabilities of the rows of a request with this id."""
    body, headers = {"dataframe_records": ROWS}, {"X-Request-Id": request}
    answer = session.post(f"{url}/invocations", json=body, headers=headers, timeout=_STUCK)
    assert answer.status_code == 200 and answer.headers["X-Request-Id"] == request
    return [row["probability"] for row in answer.json()["predictions"]]


@pytest.fixture
def version(registered: Run, tracked: MlflowClient) -> str:
    """The version that is the champion."""
    return str(tracked.get_model_version_by_alias(MODEL, "champion").version)


@pytest.fixture
def other(version: str, tracked: MlflowClient) -> Iterator[str]:
    """Another version of the same model."""
    held = tracked.get_model_version(MODEL, version)
    assert held.source is not None
    logged = held.source.removeprefix("models:/")
    made = str(tracked.create_model_version(MODEL, held.source, held.run_id, held.tags, model_id=logged).version)
    yield made
    tracked.set_registered_model_alias(MODEL, "champion", version)
    tracked.delete_model_version(MODEL, made)


def ask(url: str, over: Event) -> int:
    """Asks until it is over; returns how often. kubectl's tunnel bears one connection, not thousands."""
    count = 0
    with requests.Session() as session:
        while not over.is_set():
            answered(session, url, f"load-{count}")
            count += 1
    return count


def test_what_the_served_image_answers_is_logged_and_measured(
    place: Place, version: str, other: str, tracked: MlflowClient
) -> None:
    """It follows a promotion and the way back, under load."""
    over = Event()

    def metrics() -> str:
        return session.get(f"{url}/metrics", timeout=_STUCK).text

    def serves(number: str) -> bool:
        return f'kfrec_model_info{{model="{MODEL}",version="{number}"}} 1' in metrics()

    with pod_of(place, version) as url, requests.Session() as session, ThreadPoolExecutor(2) as pool:
        scores = [answered(session, url, request) for request in ("first", "second")]
        assert serves(version)
        asking = [pool.submit(ask, url, over) for _ in range(2)]
        try:
            promote(tracked, MODEL, other, "Ada", "it looks better")
            k8s.wait_for(lambda: serves(other))
            roll_back(tracked, MODEL, "", "Ada", "fewer orders")
            k8s.wait_for(lambda: serves(version))
        finally:
            over.set()
        assert all(each.result() for each in asking)
        counted = [line for line in metrics().splitlines() if line.startswith("kfrec_requests_total")]
        assert [line.partition('"')[2][:3] for line in counted if not line.endswith(" 0")] == ["200"]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6) and all(0 < score < 1 for score in scores[0])
    # A pod that is deleted writes what it holds before it ends.
    written = store().list_objects_v2(Bucket=BUCKET, Prefix=f"{SERVED}/")["Contents"]
    assert all(each["Key"].startswith(f"{SERVED}/{time.strftime('%Y-', time.gmtime())}") for each in written)

    store().put_object(Bucket=BUCKET, Key="outcomes/clicks.csv", Body=b"request_id,row\nfirst,0\nsecond,2\nother,1\n")
    values = {
        "model_version": f"{MODEL}/{version}", "served": f"s3://{BUCKET}/{SERVED}",
        "outcomes": f"s3://{BUCKET}/outcomes", "attribution_window": 0.0, "label_wait": 0.0,
    }  # fmt: skip
    run = Run(place, Pipeline(FEEDBACK), values)
    run.step("feedback")
    live = json.loads(read(f"{data_uri(run.uri('feedback', 'feedback'))}/live.json"))
    assert live["total"]["live_positives"] == 2 and live["counts"]["unmatched"] == 1
    assert {(day["version"], day["skew_share"]) for day in live["days"]} == {(version, 0), (other, 0)}
