"""A fake Kueue for the MPIJobs that name a queue: it suspends, admits and evicts them.

https://github.com/kubernetes-sigs/kueue, pkg/controller/jobs/mpijob: its webhook sets ``suspend`` on creation; an
admission unsets it and adds the flavor's node selector to the pods, an eviction (PodsReadyTimeout, preemption) does the
opposite, as often as it likes.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tests.fakes.kubernetes_api import KubernetesApi

Json = dict[str, Any]
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
FLAVOR = {"pool": "gpus"}


class Kueue:
    """Manages the jobs of an API from now on."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._templates: dict[str, Json] = {}
        api.webhooks.append(_suspend)

    def admit(self, name: str) -> None:
        job = deepcopy(self._api.jobs[name])
        self._templates[name] = deepcopy(job["spec"]["mpiReplicaSpecs"])
        job["spec"]["runPolicy"]["suspend"] = False
        for replica in job["spec"]["mpiReplicaSpecs"].values():
            spec = replica["template"]["spec"]
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **FLAVOR}
        self._api.put_job(job)

    def evict(self, name: str) -> None:
        job = deepcopy(self._api.jobs[name])
        job["spec"]["runPolicy"]["suspend"] = True
        job["spec"]["mpiReplicaSpecs"] = self._templates.pop(name)
        self._api.put_job(job)


def _suspend(job: Json) -> None:
    if job["metadata"].get("labels", {}).get(QUEUE_LABEL):
        job["spec"]["runPolicy"]["suspend"] = True
