"""An MPIJob acted out as mpi-operator does, with containers for its pods.

Keys, host file, names, modes and environment are those of its controller (kubeflow/mpi-operator,
pkg/controller/mpi_job_controller.go): newSSHAuthSecret, setupSSHOnPod, newConfigMap, newWorker, newLauncherPodTemplate.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.fakes.kubernetes_api import JOB_LABEL, NAMESPACE, KubernetesApi, now
from tests.images.trial.podman import NETWORK, RESTRICTED, USER, Podman, empty_dir, environment_options

Json = dict[str, Any]
_READY_SECONDS = 60
_LAUNCHER_ENVIRONMENT = {
    "K_MPI_JOB_ROLE": "launcher",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    "NVIDIA_VISIBLE_DEVICES": "",
    "NVIDIA_DRIVER_CAPABILITIES": "",
}


class Operator:
    """Runs every job that appears in the API, until the API is left.

    Args:
        api: the API it watches.
        podman: starts the pods' containers.
        folder: where their volumes are.
        secrets: what pods take from secrets, by key.
    """

    def __init__(self, api: KubernetesApi, podman: Podman, folder: Path, secrets: Mapping[str, str]) -> None:
        self._api, self._podman, self._folder, self._secrets = api, podman, folder, secrets
        self._closed = threading.Event()
        self._containers: set[str] = set()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.trouble: list[str] = []

    def __enter__(self) -> Operator:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._thread.join(30)
        self._podman.remove(*self._containers)

    def lose(self, pod: str) -> None:
        """A node takes a worker with it: nobody makes it anew."""
        self._podman.remove(pod)
        lost = deepcopy(self._api.pods[pod])
        lost["status"] = {"phase": "Failed", "reason": "Terminated", "message": "Pod was terminated by its node"}
        self._api.put_pod(lost)

    def _watch(self) -> None:
        known: set[str] = set()
        while not self._closed.wait(0.1):
            for job in list(self._api.jobs.values()):
                uid, name = job["metadata"]["uid"], job["metadata"]["name"]
                if "deletionTimestamp" in job["metadata"]:
                    self._podman.remove(*(pod for pod in self._containers if pod.startswith(f"{name}-")))
                elif uid not in known:
                    known.add(uid)
                    threading.Thread(target=self._guarded, args=(job,), daemon=True).start()

    def _guarded(self, job: Json) -> None:
        try:
            self._run(job)
        except Exception as error:
            self.trouble.append(f"{job['metadata']['name']}: {error!r}")
            self._condition(job["metadata"]["name"], "Failed", f"operator: {error}")

    def _run(self, job: Json) -> None:
        name, spec = job["metadata"]["name"], job["spec"]
        self._condition(name, "Created")
        keys = self._keys(name, spec["sshAuthMountPath"])
        replicas = spec["mpiReplicaSpecs"]
        hosts = {}
        for index in range(replicas["Worker"]["replicas"]):
            pod = f"{name}-worker-{index}"
            environment = {"K_MPI_JOB_ROLE": "worker"}
            command = self._pod(pod, replicas["Worker"]["template"], environment, keys, "--detach", f"--hostname={pod}")
            subprocess.run(command, check=True, capture_output=True)
            hosts[f"{pod}.{name}.{NAMESPACE}.svc"] = self._podman.address(pod)
            self._tell(name, pod, "worker", {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]})
        for index, address in enumerate(hosts.values()):
            _await_port(address, 2222)  # the readiness probe
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            self._tell(name, f"{name}-worker-{index}", "worker", ready)
        config = self._folder / name / "config"
        config.mkdir()
        slots = spec.get("slotsPerWorker", 1)
        (config / "hostfile").write_text("".join(f"{host} slots={slots}\n" for host in hosts))
        (config / "hostfile").chmod(0o444)
        environment = {**_LAUNCHER_ENVIRONMENT, "OMPI_MCA_orte_set_default_slots": str(slots)}
        names = [f"--add-host={host}:{address}" for host, address in hosts.items()]
        mounted = [*keys, f"--volume={config}:/etc/mpi:ro"]
        launcher = f"{name}-launcher-{os.urandom(3).hex()}"
        command = self._pod(launcher, replicas["Launcher"]["template"], environment, mounted, *names)
        status = self._launch(name, launcher, command)
        if name not in self._api.jobs or "deletionTimestamp" in self._api.jobs[name]["metadata"]:
            return
        self._condition(name, "Failed" if status else "Succeeded", "Job has reached the specified backoff limit")
        for pod in [f"{name}-worker-{index}" for index in range(len(hosts))]:  # cleanPodPolicy Running
            self._podman.remove(pod)
            if self._api.pods.get(pod, {}).get("status", {}).get("phase") == "Running":
                del self._api.pods[pod]

    def _launch(self, job: str, pod: str, command: Sequence[str]) -> int:
        self._tell(job, pod, "launcher", {"phase": "Running"})
        self._condition(job, "Running")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            self._api.say(pod, line.rstrip("\n"))
        status = process.wait()
        self._api.end_log(pod)
        terminated = {"exitCode": status, "reason": "Error" if status else "Completed"}
        ended = {"name": "launcher", "image": "", "imageID": "", "ready": False, "restartCount": 0,
                 "state": {"terminated": terminated}}  # fmt: skip
        if pod in self._api.pods:
            phase = "Failed" if status else "Succeeded"
            self._tell(job, pod, "launcher", {"phase": phase, "containerStatuses": [ended]})
        return status

    def _pod(
        self, pod: str, template: Json, environment: Mapping[str, str], mounted: Sequence[str], *options: str
    ) -> list[str]:
        """The command line that runs a pod's container with what the template says, and no other rights."""
        spec = template["spec"]
        (container,) = spec["containers"]
        security = container["securityContext"] | spec["securityContext"]
        assert security["readOnlyRootFilesystem"] and security["capabilities"] == {"drop": ["ALL"]}
        assert not security["allowPrivilegeEscalation"] and security["runAsUser"] == security["fsGroup"] == USER
        values = dict(environment)
        for entry in container["env"]:
            reference = entry.get("valueFrom", {}).get("secretKeyRef")
            values[entry["name"]] = self._secrets[reference["key"]] if reference else entry["value"]
        volumes = {volume["name"]: volume["emptyDir"] for volume in spec["volumes"]}
        mounts = []
        for mount in container["volumeMounts"]:
            path = mount["mountPath"]
            if volumes[mount["name"]].get("medium") == "Memory":
                mounts.append(f"--mount=type=tmpfs,destination={path},tmpfs-size=1g,tmpfs-mode=1777")
            else:
                mounts.append(f"--volume={empty_dir(self._folder / pod / mount['name'])}:{path}")
        self._containers.add(pod)
        given = [f"--name={pod}", f"--network={NETWORK}", *RESTRICTED, *environment_options(values), *mounts, *mounted]
        return self._podman.command(container["image"], container["command"], [*given, *options])

    def _keys(self, name: str, mount: str) -> list[str]:
        """The secret with the job's keys, as it lies in its pods: of root, readable by the pod's group, and 0644."""
        folder = self._folder / name / "ssh"
        folder.mkdir(parents=True)
        key = folder / "id_rsa"
        generate = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-C", "", "-f", str(key)]
        subprocess.run(generate, check=True)
        shutil.copy(folder / "id_rsa.pub", folder / "authorized_keys")
        for file in folder.iterdir():
            os.chown(file, 0, USER)
            file.chmod(0o644)
        return [f"--volume={folder}:{mount}:ro"]

    def _tell(self, job: str, name: str, role: str, status: Json) -> None:
        earlier = self._api.pods.get(name, {}).get("metadata", {})
        labels = {JOB_LABEL: job, "training.kubeflow.org/job-role": role}
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "creationTimestamp": now()} | earlier
        self._api.put_pod({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": []},
                           "status": status})  # fmt: skip

    def _condition(self, name: str, kind: str, message: str = "") -> None:
        with self._api.changed:
            if name not in self._api.jobs:
                return
            job = deepcopy(self._api.jobs[name])
            status = job.setdefault("status", {})
            if kind in ("Succeeded", "Failed"):
                status["completionTime"] = now()
            status.setdefault("conditions", []).append(
                {"type": kind, "status": "True", "reason": f"MPIJob{kind}", "message": message}
            )
            self._api.put_job(job)


def _await_port(address: str, port: int) -> None:
    until = time.monotonic() + _READY_SECONDS
    while True:
        try:
            socket.create_connection((address, port), 2).close()
            return
        except OSError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.2)
