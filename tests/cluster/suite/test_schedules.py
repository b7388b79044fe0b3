"""Schedules: real CronJobs, whose pods ask KFP's API.

On a node of our own that API is tests/fakes/kfp_api.py, since KFP's server is no published module.
"""

from __future__ import annotations

from tests.cluster import kubectl as k8s
from tests.cluster.steps import Place
from tests.fakes.kfp_api import KfpApi

SCHEDULE, SUSPENDED = "kfrec-weekly", "kfrec-nightly"
_MANUAL = "cronjob.kubernetes.io/instantiate"


def jobs_of(namespace: str, schedule: str) -> list[str]:
    """The jobs that the CronJob's controller has started, by time."""
    there = k8s.listed(namespace, "jobs", "--sort-by=.metadata.creationTimestamp")
    return [
        body["metadata"]["name"]
        for body in there
        for owner in body["metadata"].get("ownerReferences", ())
        if owner["name"] == schedule and _MANUAL not in body["metadata"].get("annotations", {})
    ]


def every_minute(namespace: str, schedule: str, suspend: bool) -> None:
    patch = f'{{"spec": {{"suspend": {str(suspend).lower()}, "schedule": "* * * * *"}}}}'
    k8s.kubectl("-n", namespace, "patch", "cronjob", schedule, "-p", patch)


def said(namespace: str, job: str) -> str:
    k8s.kubectl("-n", namespace, "wait", "--for=condition=complete", f"job/{job}", "--timeout=600s")
    return k8s.kubectl("-n", namespace, "logs", f"job/{job}")


def test_a_schedule_fires_once_while_its_run_goes_on_and_ends_when_it_is_deleted(place: Place, kfp: KfpApi) -> None:
    namespace = place.namespace
    every_minute(namespace, SUSPENDED, suspend=True)
    every_minute(namespace, SCHEDULE, suspend=False)
    k8s.wait_for(lambda: len(jobs_of(namespace, SCHEDULE)) >= 2)
    first, second = jobs_of(namespace, SCHEDULE)[:2]
    assert "not started" not in said(namespace, first) and len(kfp.runs) == 1
    (run,) = kfp.runs.values()
    assert run["display_name"].startswith(SCHEDULE) and run["service_account"] == "kfrec-pipeline"
    assert run["display_name"] in said(namespace, second) and "not started: " in said(namespace, second)
    assert len(kfp.runs) == 1
    assert jobs_of(namespace, SUSPENDED) == []
    # Jobs of a deleted CronJob go with it.
    k8s.kubectl("-n", namespace, "delete", "cronjob", SCHEDULE)
    k8s.wait_for(lambda: jobs_of(namespace, SCHEDULE) == [])
    assert len(kfp.runs) == 1
