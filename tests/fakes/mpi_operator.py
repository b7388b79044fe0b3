"""A fake mpi-operator on this machine: a launcher's command really runs, up to its mpirun.

It reproduces the real one's pitfalls: a failed worker is never replaced, the launcher of a job that was suspended
starts together with the workers, an evicted job keeps its pods, a suspended one may lose them at any time, and the
condition of a finished job need not be the last one.
"""

from __future__ import annotations

import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.fakes.kubernetes_api import JOB_LABEL, NAMESPACE, KubernetesApi, now
from tests.waiting import LONGEST

Json = dict[str, Any]
_UNREACHABLE = ["sh", "-c", "echo 'ssh: connect to host: no route or name' >&2; exit 255"]


class MpiOperator:
    """Runs every job that appears in the API until the API is left.

    Args:
        api: the API it watches.
        stage: folder for the volumes at /stage, empty for each job's workers.
        program: runs in a launcher in place of mpirun; gets the number of the try.

    Attributes:
        unschedulable: the scheduler's message if there is no node; empty schedules pods.
        image_trouble: the kubelet's message if a pull fails; empty pulls.
        pod_quota: message of a quota that rejects pods; empty admits them.
        enforces_deadlines: whether a job ends after its activeDeadlineSeconds.
        ssh_delay: seconds after its workers are ready until their names resolve and sshd answers.
        dead: workers that fail as soon as they are created.
        tries: launchers started.
    """

    def __init__(self, api: KubernetesApi, stage: Path, program: Callable[[int], Sequence[str]]) -> None:
        self.api, self._stage, self._program = api, stage, program
        self.unschedulable = self.image_trouble = self.pod_quota = ""
        self.enforces_deadlines = True
        self.ssh_delay = 0.0
        self.dead: set[str] = set()
        self.tries = 0
        self._with_launcher: set[str] = set()
        self._process: subprocess.Popen[str] | None = None
        self._sshd: socketserver.ThreadingTCPServer | None = None
        self._ssh_port = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MpiOperator:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._kill()
        self._thread.join(LONGEST)
        self._close_sshd()

    def lose(self, pod: str, reason: str, message: str = "", hangs: bool = False) -> None:
        """A worker is lost: evicted, reclaimed, out of memory.

        Args:
            pod: the worker.
            reason: of its status; only "Evicted" makes the operator fail the job.
            message: of its status.
            hangs: the launcher does not notice.
        """
        lost = deepcopy(self.api.pods[pod])
        lost["status"] = {"phase": "Failed", "reason": reason, "message": message}
        self.api.put_pod(lost)
        if not hangs:
            self._kill()

    def drain(self, pod: str) -> None:
        """A worker is drained from its node; the operator creates another one, unknown to the launcher."""
        with self.api.changed:
            old = self.api.pods.pop(pod)
        self._pod(old["metadata"]["labels"][JOB_LABEL], pod, "worker", _running())

    def _watch(self) -> None:
        known: set[str] = set()
        while not self._closed.is_set():
            for job in list(self.api.jobs.values()):
                if job["metadata"]["uid"] not in known:
                    known.add(job["metadata"]["uid"])
                    done = {c["type"] for c in job.get("status", {}).get("conditions", ()) if c["status"] == "True"}
                    if not done & {"Succeeded", "Failed"}:
                        self._run(job["metadata"]["name"], job["metadata"]["uid"])
            time.sleep(0.02)

    def _run(self, name: str, uid: str) -> None:
        self._condition(name, "Created")
        while self._run_until_suspended(name, uid):
            pass

    def _run_until_suspended(self, name: str, uid: str) -> bool:
        """Runs a job to its end; True where it was suspended before, and is to be run again."""
        if not self._started(name, uid):
            return False
        job = self.api.jobs[name]
        workers = [f"{name}-worker-{n}" for n in range(job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"])]
        over = threading.Event()
        bringing_up = threading.Thread(target=self._bring_up, args=(name, uid, workers, over), daemon=True)
        self._close_sshd()
        self._port()  # or sshd and the launcher, which begin together, might choose one each
        bringing_up.start()
        if uid not in self._with_launcher:
            bringing_up.join()
            if not self._goes_on(name, uid, over):
                return self._is_suspended(name)
        self._with_launcher.add(uid)
        limit = job["spec"]["runPolicy"]["activeDeadlineSeconds"] if self.enforces_deadlines else 1e9
        deadline = time.monotonic() + limit
        # Kubernetes never gives a launcher the name of one before it, not even of a deleted job.
        pod = f"{name}-launcher-{uid}-{self.tries}"
        status = self._launch(name, uid, pod, deadline)
        over.set()
        bringing_up.join()
        if status is None:  # the job is gone
            return False
        if self._is_suspended(name):
            for gone in (pod, *workers):
                self.api.pods.pop(gone, None)
            self._condition(name, "Running", status="False")
            return True
        lost = [self.api.pods.get(worker, {}).get("status", {}).get("reason") for worker in workers]
        if "Evicted" in lost:
            self._condition(name, "Failed", "MPIJobEvicted", f"1/{len(workers)} workers are evicted")
            return False  # and its pods stay
        if status == 0:
            self._condition(name, "Succeeded")
        elif time.monotonic() >= deadline:
            self._condition(name, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        else:
            self._condition(name, "Failed", "BackoffLimitExceeded/", "Job has reached the specified backoff limit: ")
        for pod in workers:  # cleanPodPolicy Running
            if self.api.pods.get(pod, {}).get("status", {}).get("phase") in ("Running", "Pending"):
                del self.api.pods[pod]
        return False

    def _started(self, name: str, uid: str) -> bool:
        """Waits while the job is suspended."""
        suspended = False
        while self._is_suspended(name):
            if not suspended:
                self._condition(name, "Suspended")
                suspended = True
                # It creates the launcher, suspended too, when all workers are ready: of none, all are.
                self._with_launcher.add(uid)
            if not self._alive(name, uid):
                return False
            time.sleep(0.02)
        if suspended:
            self._condition(name, "Suspended", status="False")
        return self._alive(name, uid)

    def _is_suspended(self, name: str) -> bool:
        return bool(self.api.jobs.get(name, {}).get("spec", {}).get("runPolicy", {}).get("suspend"))

    def _goes_on(self, name: str, uid: str, over: threading.Event) -> bool:
        """Whether workers of the job are still wanted."""
        return self._alive(name, uid) and not over.is_set() and not self._is_suspended(name)

    def _bring_up(self, name: str, uid: str, workers: Sequence[str], over: threading.Event) -> None:
        """Creates the workers, waits until they are ready, which they never are if one has failed, and starts sshd."""
        if self.pod_quota:
            self.api.event(name, "FailedCreate", f"Error creating: pods is forbidden: {self.pod_quota}")
        while self.pod_quota or self.unschedulable or self.image_trouble:
            for pod in workers if not self.pod_quota else ():
                self._pod(name, pod, "worker", self._pending())
            if not self._goes_on(name, uid, over):
                return
            time.sleep(0.02)
        for pod in workers:
            if self.api.pods.get(pod, {}).get("status", {}).get("phase") != "Failed":
                status = {"phase": "Failed", "reason": "Terminated"} if pod in self.dead else _running()
                self._pod(name, pod, "worker", status)
        while not self._all_run(workers):
            if not self._goes_on(name, uid, over):
                return
            time.sleep(0.02)
        self._open_sshd(time.monotonic() + self.ssh_delay)

    def _all_run(self, workers: Sequence[str]) -> bool:
        return all(self.api.pods.get(pod, {}).get("status", {}).get("phase") == "Running" for pod in workers)

    def _pending(self) -> Json:
        if self.image_trouble:
            waiting = {"reason": "ImagePullBackOff", "message": self.image_trouble}
            container = {"name": "worker", "image": "kfrec-train:none", "imageID": "", "ready": False,
                         "restartCount": 0, "state": {"waiting": waiting}}  # fmt: skip
            return {"phase": "Pending", "containerStatuses": [container]}
        unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                       "message": self.unschedulable}  # fmt: skip
        return {"phase": "Pending", "conditions": [unscheduled]}

    def _launch(self, name: str, uid: str, pod: str, deadline: float) -> int | None:
        """Runs one launcher to its end; None where the job was deleted meanwhile."""
        job = self.api.jobs[name]
        container = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
        workers = [f"{name}-worker-{n}" for n in range(job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"])]
        command = list(container["command"])
        waits = command[: command.index("mpirun")] if "mpirun" in command else []
        command = [*waits, *self._program(self.tries)]
        if not waits and (self._sshd is None or not self._all_run(workers)):
            command = _UNREACHABLE
        stage = self._stage / uid
        stage.mkdir(parents=True, exist_ok=True)
        hosts = stage / "hostfile"
        hosts.write_text(f"localhost slots={len(workers) * job['spec'].get('slotsPerWorker', 1)}\n")
        given = {e["name"]: e["value"] for e in container["env"] if "value" in e}
        environment = os.environ | _image_environment() | given | {"OMPI_MCA_orte_default_hostfile": str(hosts)}
        stands_for = {"=/stage": f"={stage}", "--port=2222": f"--port={self._port()}"}
        for real, here in stands_for.items():
            command = [word.replace(real, here) for word in command]
        self._pod(name, pod, "launcher", {"phase": "Running"})
        running = False
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        self._process = process
        self.tries += 1
        reader = threading.Thread(target=self._read, args=(pod, process), daemon=True)
        reader.start()
        while process.poll() is None:
            if not running and self._all_run(workers):
                running = True
                self._condition(name, "Running")
            if not self._alive(name, uid) or time.monotonic() >= deadline or self._is_suspended(name):
                self._kill()
            time.sleep(0.02)
        reader.join(LONGEST)
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
        labels = {JOB_LABEL: job, "training.kubeflow.org/job-role": role}
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
            if kind in ("Succeeded", "Failed"):
                for at, running in enumerate(conditions):
                    if running["type"] == "Running":
                        conditions.append(conditions.pop(at) | {"status": "False"})
                        break
            self.api.put_job(job)

    def _alive(self, name: str, uid: str) -> bool:
        job = None if self._closed.is_set() else self.api.jobs.get(name)
        return job is not None and job["metadata"]["uid"] == uid and "deletionTimestamp" not in job["metadata"]

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _open_sshd(self, at: float) -> None:
        """Lets the workers' sshd answer after a delay."""
        self._close_sshd()

        def serve() -> None:
            socketserver.ThreadingTCPServer.allow_reuse_address = True
            server = socketserver.ThreadingTCPServer(("127.0.0.1", self._port()), _Banner)
            server.daemon_threads = True
            self._sshd = server
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

        wait = at - time.monotonic()
        if wait > 0:
            threading.Timer(wait, serve).start()
        else:
            serve()

    def _port(self) -> int:
        if not self._ssh_port:
            with socketserver.TCPServer(("127.0.0.1", 0), _Banner) as probe:
                self._ssh_port = probe.server_address[1]
        return self._ssh_port

    def _close_sshd(self) -> None:
        server, self._sshd = self._sshd, None
        if server is not None:
            server.shutdown()
            server.server_close()


class _Banner(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


def _running() -> Json:
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def _image_environment() -> dict[str, str]:
    """The train image's environment: this Python."""
    return {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(Path(__file__).parents[2])}
