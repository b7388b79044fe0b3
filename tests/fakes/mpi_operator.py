"""What mpi-operator does with an MPIJob, on this machine: the launcher's command really runs, with this mpirun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

from components.train.mpi import mpi_environment
from tests.fakes.kubernetes_api import NAMESPACE, KubernetesApi, now

Json = dict[str, Any]


class MpiOperator:
    """Runs every job that appears in the API until the API is left.

    Args:
        api: the API it watches.
        stage: stands for the volume at /stage of every worker.
        program: what a launcher runs instead of its container's command, given the number of the try.

    Attributes:
        suspend: while set, jobs are held back as Kueue holds them.
        unschedulable: message of a scheduler that finds no node; empty finds one.
        image_trouble: message of a kubelet that cannot pull; empty pulls.
        pod_quota: message of a quota that refuses pods; empty lets them in.
        tries: launchers started.
    """

    def __init__(self, api: KubernetesApi, stage: Path, program: Callable[[int], Sequence[str]] | None = None) -> None:
        self.api, self._stage, self._program = api, stage, program
        self.suspend = threading.Event()
        self.unschedulable = self.image_trouble = self.pod_quota = ""
        self.tries = 0
        self._process: subprocess.Popen[str] | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MpiOperator:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._kill()
        self._thread.join(10)

    def evict(self, pod: str, message: str) -> None:
        """The kubelet evicts a worker; the operator fails its job."""
        evicted = deepcopy(self.api.pods[pod])
        evicted["status"] = {"phase": "Failed", "reason": "Evicted", "message": message}
        self.api.put_pod(evicted)
        self._kill()

    def _watch(self) -> None:
        known: set[str] = set()
        while not self._closed.is_set():
            for job in list(self.api.jobs.values()):
                if job["metadata"]["uid"] not in known:
                    known.add(job["metadata"]["uid"])
                    self._run(job["metadata"]["name"], job["metadata"]["uid"])
            time.sleep(0.02)

    def _run(self, name: str, uid: str) -> None:
        self._condition(name, "Created")
        if not self._started(name, uid):
            return
        job = self.api.jobs[name]
        policy = job["spec"]["runPolicy"]
        workers = [f"{name}-worker-{n}" for n in range(job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"])]
        if not self._workers_ready(name, uid, workers):
            return
        self._condition(name, "Running")
        deadline = time.monotonic() + policy["activeDeadlineSeconds"]
        for number in range(policy["backoffLimit"] + 1):
            # Kubernetes never gives a launcher the name of one before it, not even of a deleted job.
            status = self._launch(name, uid, f"{name}-launcher-{uid}-{number}", deadline)
            if status is None:  # the job is gone
                break
            evicted = [w for w in workers if self.api.pods[w]["status"].get("reason") == "Evicted"]
            if evicted:
                self._condition(name, "Failed", "MPIJobEvicted", f"1/{len(workers)} workers are evicted")
                break
            if status == 0:
                self._condition(name, "Succeeded")
                break
            if time.monotonic() >= deadline:
                self._condition(name, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
                break
        else:
            self._condition(name, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        for pod in workers:  # cleanPodPolicy Running
            if self.api.pods[pod]["status"]["phase"] == "Running":
                del self.api.pods[pod]

    def _started(self, name: str, uid: str) -> bool:
        """Waits while the job is suspended."""
        suspended = False
        while self.suspend.is_set():
            if not suspended:
                self._condition(name, "Suspended")
                suspended = True
            if not self._alive(name, uid):
                return False
            time.sleep(0.02)
        if suspended:
            self._condition(name, "Suspended", status="False")
        return self._alive(name, uid)

    def _workers_ready(self, name: str, uid: str, workers: Sequence[str]) -> bool:
        if self.pod_quota:
            self.api.event(name, "FailedCreate", f"Error creating: pods is forbidden: {self.pod_quota}")
        while self.pod_quota or self.unschedulable or self.image_trouble:
            for pod in workers if not self.pod_quota else ():
                self._pod(name, pod, "worker", self._pending())
            if not self._alive(name, uid):
                return False
            time.sleep(0.02)
        for pod in workers:
            self._pod(name, pod, "worker", {"phase": "Running"})
        return True

    def _pending(self) -> Json:
        if self.unschedulable:
            unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                           "message": self.unschedulable}  # fmt: skip
            return {"phase": "Pending", "conditions": [unscheduled]}
        waiting = {"reason": "ImagePullBackOff", "message": self.image_trouble}
        container = {"name": "worker", "image": "kfrec-train:none", "imageID": "", "ready": False, "restartCount": 0,
                     "state": {"waiting": waiting}}  # fmt: skip
        return {"phase": "Pending", "containerStatuses": [container]}

    def _launch(self, name: str, uid: str, pod: str, deadline: float) -> int | None:
        """Runs one launcher to its end; None where the job was deleted meanwhile."""
        container = self.api.jobs[name]["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
        command = self._program(self.tries) if self._program else container["command"]
        environment = (
            os.environ | _image_environment() | {e["name"]: e["value"] for e in container["env"] if "value" in e}
        )
        self._pod(name, pod, "launcher", {"phase": "Running"})
        process = subprocess.Popen(
            [word.replace("=/stage", f"={self._stage}") for word in command],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self._process = process
        self.tries += 1
        reader = threading.Thread(target=self._read, args=(pod, process), daemon=True)
        reader.start()
        while process.poll() is None:
            if not self._alive(name, uid) or time.monotonic() >= deadline or self._closed.is_set():
                self._kill()
            time.sleep(0.02)
        reader.join(10)
        self.api.end_log(pod)
        if not self._alive(name, uid):
            self.api.pods.pop(pod, None)
            return None
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        phase, reason = ("Succeeded", "Completed") if code == 0 else ("Failed", "Error")
        ended = {"name": "launcher", "image": container["image"], "imageID": "", "ready": False, "restartCount": 0,
                 "state": {"terminated": {"exitCode": code, "reason": reason}}}  # fmt: skip
        self._pod(name, pod, "launcher", {"phase": phase, "containerStatuses": [ended]})
        return code

    def _read(self, pod: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.api.say(pod, line.rstrip("\n"))

    def _pod(self, job: str, name: str, role: str, status: Json) -> None:
        earlier = self.api.pods.get(name, {}).get("metadata", {})
        labels = {"training.kubeflow.org/job-name": job, "training.kubeflow.org/job-role": role}
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "creationTimestamp": now()} | earlier
        self.api.put_pod({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": []},
                          "status": status})  # fmt: skip

    def _condition(self, name: str, kind: str, reason: str = "", message: str = "", status: str = "True") -> None:
        with self.api.changed:
            if name not in self.api.jobs:
                return
            job = deepcopy(self.api.jobs[name])
            conditions = job.setdefault("status", {}).setdefault("conditions", [])
            if kind in ("Succeeded", "Failed") and reason != "MPIJobEvicted":
                job["status"]["completionTime"] = now()
            conditions[:] = [c for c in conditions if c["type"] != kind]
            conditions.append({"type": kind, "status": status, "reason": reason or f"MPIJob{kind}", "message": message,
                               "lastTransitionTime": now()})  # fmt: skip
            self.api.put_job(job)

    def _alive(self, name: str, uid: str) -> bool:
        job = self.api.jobs.get(name)
        return job is not None and job["metadata"]["uid"] == uid

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _image_environment() -> dict[str, str]:
    """What the train image has in place: this environment's Python and MPI, which may run as root and share cores."""
    binaries = Path(sys.executable).parent
    return {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        **mpi_environment(sys.prefix),
    }
