"""A fake Dask operator on this machine: the scheduler and the workers of a DaskCluster really run.

It reproduces the real one's pitfalls: the phase is Running as soon as there is a service, long before any pod runs;
pods start slowly, one after the other; a worker that ends is restarted under the same name, like its Deployment does,
with an empty working folder; and all of it is deleted with the object.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.fakes.handler import free_port
from tests.fakes.kubernetes_api import CLUSTER_LABEL, NAMESPACE, KubernetesApi

Json = dict[str, Any]
_MEMORY_KILL = 137


class DaskOperator:
    """Runs every DaskCluster that appears in the API until the operator is left.

    Args:
        api: the API it watches.
        folder: the working folders of the pods are here.

    Attributes:
        port: of the scheduler's service.
        delay: seconds between two pods.
        pending: message of the Kubernetes scheduler if the last worker is unschedulable; empty schedules it.
        pod_quota: message of a quota that rejects pods; empty admits them.
        environment: more variables of the workers.
        restarts: of pods that ended.
        processes: by the pod's name.
    """

    def __init__(self, api: KubernetesApi, folder: Path) -> None:
        self.api, self._folder = api, folder
        self.port = free_port()
        self.delay = 0.2
        self.pending = self.pod_quota = ""
        self.restarts = 0
        self.environment: dict[str, str] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> DaskOperator:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._thread.join(10)
        self._end("")

    def workers(self) -> list[str]:
        """The workers whose processes run."""
        return [name for name, process in self.processes.items() if "-worker-" in name and process.poll() is None]

    def scheduler(self) -> str:
        """The scheduler whose process runs."""
        return next(
            name for name, process in self.processes.items() if "-scheduler-" in name and process.poll() is None
        )

    def kill(self, pod: str) -> None:
        """A pod's process ends as one that takes too much memory does."""
        self.processes[pod].send_signal(signal.SIGKILL)

    def _watch(self) -> None:
        made: set[str] = set()
        while not self._closed.is_set():
            live = {name for name in self.api.live_jobs() if name in self.api.clusters}
            for name in live - made:
                made.add(name)
                self._make(name)
            for name in made - live:
                self._end(name)
            self._restart()
            time.sleep(0.02)

    def _make(self, name: str) -> None:
        cluster = deepcopy(self.api.clusters[name])
        for phase in ("Created", "Pending", "Running"):
            cluster["status"] = {"phase": phase}
            self.api.put_job(deepcopy(cluster))
        if self.pod_quota:
            about = f"{name}-scheduler-6f7d9"
            self.api.event(about, "FailedCreate", f"Error creating: pods is forbidden: {self.pod_quota}", "ReplicaSet")
            return
        replicas = cluster["spec"]["worker"]["replicas"]
        self._start(cluster, f"{name}-scheduler-6f7d9-{uuid4().hex[:5]}", "scheduler")
        for number in range(replicas):
            time.sleep(self.delay)
            pod = f"{name}-default-worker-{uuid4().hex[:10]}-6f7d9-{uuid4().hex[:5]}"
            if self.pending and number == replicas - 1:
                self._pod(cluster, pod, "worker", self._unschedulable())
            elif name in self.api.live_jobs():
                self._start(cluster, pod, "worker")

    def _start(self, cluster: Json, pod: str, role: str) -> None:
        (container,) = cluster["spec"][role]["spec"]["containers"]
        own = self._folder / uuid4().hex
        own.mkdir(parents=True)
        given = {entry["name"]: entry["value"] for entry in container["env"]} | self.environment
        environment = os.environ | given | {
            "DASK_SCHEDULER_ADDRESS": f"tcp://127.0.0.1:{self.port}", "TMPDIR": str(own), "HOME": str(own),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }  # fmt: skip
        command = [sys.executable if word == "python" else word for word in container["command"]]
        if role == "scheduler":
            command += ["--host=127.0.0.1", f"--port={self.port}", "--dashboard-address=127.0.0.1:0"]
        self.processes[pod] = subprocess.Popen(
            command, cwd=own, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=(self._folder / f"{pod}.log").open("ab"),
        )  # fmt: skip
        earlier = self.api.pods.get(pod, {}).get("status", {}).get("containerStatuses", [])
        self._pod(cluster, pod, role, {"phase": "Running", "containerStatuses": earlier})

    def _restart(self) -> None:
        for pod, process in list(self.processes.items()):
            if (code := process.poll()) is None or pod not in self.api.pods:
                continue
            labels = self.api.pods[pod]["metadata"]["labels"]
            cluster = self.api.clusters.get(labels[CLUSTER_LABEL])
            if cluster is None or "deletionTimestamp" in cluster["metadata"]:
                continue
            self.restarts += 1
            reason = "OOMKilled" if code == -signal.SIGKILL else "Error"
            ended = {"terminated": {"exitCode": _MEMORY_KILL if code < 0 else code, "reason": reason}}
            status = {"name": "worker", "image": "x", "imageID": "", "ready": False, "restartCount": 1, "state": {},
                      "lastState": ended}  # fmt: skip
            self._pod(cluster, pod, labels["dask.org/component"], {"phase": "Running", "containerStatuses": [status]})
            self._start(cluster, pod, labels["dask.org/component"])

    def _pod(self, cluster: Json, pod: str, role: str, status: Json) -> None:
        metadata = cluster["metadata"]
        labels = metadata["labels"] | {CLUSTER_LABEL: metadata["name"], "dask.org/component": role}
        self.api.put_pod({
            "kind": "Pod", "apiVersion": "v1", "spec": {"containers": []}, "status": status,
            "metadata": {"name": pod, "namespace": NAMESPACE, "labels": labels, "annotations": metadata["annotations"]},
        })  # fmt: skip

    def _unschedulable(self) -> Json:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": self.pending}
        return {"phase": "Pending", "conditions": [condition]}

    def _end(self, cluster: str) -> None:
        of_the_cluster = [pod for pod in self.processes if pod.startswith(cluster)]
        for pod in of_the_cluster:
            with suppress(ProcessLookupError):
                self.processes[pod].kill()
        for pod in of_the_cluster:
            self.processes.pop(pod).wait()
