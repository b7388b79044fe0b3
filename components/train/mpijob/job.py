"""The MPIJob object of a training: launcher, workers, and their security contexts.

Settings that are easy to miss: cleanPodPolicy Running, or workers keep their GPUs after the launcher ends; backoffLimit
0, because the operator does not replace a failed worker (see ``launcher``); explicit deadline and TTL; minAvailable
without the launcher, which starts after its workers; a launcher that waits for the workers' sshd; no service mesh
between the pods; GPUs only for workers; and ``-x`` for the environment of the ranks, because sshd starts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from components.cluster.api import Cluster, connect
from components.cluster.pods import Owner, find_owner, own_pod
from components.cluster.template import container_security, own_labels, pod_security
from components.errors import KfrecError
from components.progress import EVENTS
from components.settings_file import load_settings_file
from components.steps.catalog import LaunchParameters
from components.train.jobs.attempts import job_name, job_object, training_name
from components.train.jobs.kind import JobKind
from components.train.jobs.launcher import JobLauncher
from components.train.jobs.watcher import Pace
from components.train.launching.launch import MODULE
from components.train.mpijob.await_workers import UNREACHED
from components.train.mpijob.settings import MOUNT_PATHS, SHARED_MEMORY, STAGING, TEMPORARY, JobSettings

LAUNCHER, WORKER = "launcher", "worker"
KIND = JobKind(
    name="MPIJob",
    group="kubeflow.org",
    version="v2beta1",
    plural="mpijobs",
    pod_label="training.kubeflow.org/job-name",
    asked_by="launcher=mpijob",
    instead="launcher=local for processes of this machine",
    role_label="training.kubeflow.org/job-role",
    launcher=LAUNCHER,
    worker=WORKER,
    unreached=UNREACHED,
    policy=lambda job: job["spec"]["runPolicy"],
)
SSH_FOLDER, SSHD_CONFIG = "/home/mpiuser/.ssh", "/home/mpiuser/.sshd_config"
SSH_PORT = 2222
WAIT_MODULE = "components.train.mpijob.await_workers"
_LONGEST_NAME = 63
_COMPONENT = "mpijob"
_NO_MESH = {"sidecar.istio.io/inject": "false"}
# Variables of the image, which a shell started by sshd lacks.
_OF_THE_IMAGE = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")


def in_cluster(parameters: LaunchParameters) -> JobLauncher:
    """The launcher of a train step: in its pod's cluster, else in the kubeconfig's.

    Raises:
        KfrecError: there is no cluster, or the file job_settings is invalid.
    """
    settings = load_settings_file(Path(parameters.job_settings), JobSettings)
    cluster = connect(KIND, settings.namespace, echo=tqdm.write)
    training = training_name(parameters.run_id, parameters.model_uri)
    return launcher(cluster, training, parameters, settings, find_owner(cluster, own_pod()))


def launcher(
    cluster: Cluster,
    training: str,
    parameters: LaunchParameters,
    settings: JobSettings,
    owner: Owner | None = None,
    pace: Pace | None = None,
    echo: Callable[[str], None] = tqdm.write,
) -> JobLauncher:
    """The launcher of a training in MPIJobs; see ``JobLauncher``."""

    def body(attempt: int, arguments: Sequence[str]) -> dict[str, Any]:
        return mpijob(training, attempt, cluster.namespace, parameters, settings, arguments, owner)

    return JobLauncher(
        cluster, KIND, training, body, parameters, settings.namespace, settings.queue, owner, pace or Pace(), echo
    )


def mpijob(
    training: str,
    attempt: int,
    namespace: str,
    parameters: LaunchParameters,
    settings: JobSettings,
    arguments: Sequence[str],
    owner: Owner | None = None,
) -> dict[str, Any]:
    """The object to create.

    Args:
        attempt: number of the job among those of its training, from 1.
        parameters: workers, workers_per_pod, gpus_per_worker and the sizes.
        owner: for the owner reference, if any.

    Raises:
        KfrecError: a pod's name is too long.
    """
    pods = parameters.workers // parameters.workers_per_pod
    if len(last := f"{job_name(training, attempt)}-worker-{pods - 1}") > _LONGEST_NAME:
        raise KfrecError(f"{last}: longer than the {_LONGEST_NAME} characters of a host name; choose a shorter name")
    policy: dict[str, Any] = {
        "cleanPodPolicy": "Running",
        "backoffLimit": 0,
        "activeDeadlineSeconds": parameters.deadline,
        "ttlSecondsAfterFinished": settings.ttl_seconds_after_finished,
        # The operator's default includes the launcher, which it creates only when the workers are ready.
        "schedulingPolicy": {**settings.scheduling_policy, "minAvailable": pods},
    }
    spec = {
        "slotsPerWorker": parameters.workers_per_pod,
        "runPolicy": policy,
        "sshAuthMountPath": SSH_FOLDER,
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiImplementation": "OpenMPI",
        "mpiReplicaSpecs": {
            "Launcher": {
                "replicas": 1,
                "restartPolicy": "Never",
                "template": _launcher(parameters, settings, arguments),
            },
            "Worker": {"replicas": pods, "restartPolicy": "Never", "template": _worker(parameters, settings)},
        },
    }
    labels = _labels(settings) | ({"kueue.x-k8s.io/queue-name": settings.queue} if settings.queue else {})
    return job_object(KIND, training, attempt, namespace, spec, labels, owner)


def _labels(settings: JobSettings, component: str = _COMPONENT) -> dict[str, str]:
    return own_labels(component) | dict(settings.labels)


def _launcher(parameters: LaunchParameters, settings: JobSettings, arguments: Sequence[str]) -> dict[str, Any]:
    environment = _environment(settings)
    names = (*_OF_THE_IMAGE, *settings.forwarded, *(entry["name"] for entry in environment))
    exported = [word for name in names for word in ("-x", name)]
    wait = ["python", "-m", WAIT_MODULE, f"--port={SSH_PORT}", f"--seconds={settings.ssh_seconds}"]
    command = [*wait, "mpirun", "-np", str(parameters.workers), "--bind-to", "none", "--tag-output", *exported]
    launcher = _container(
        LAUNCHER,
        [*command, "python", "-m", MODULE, *arguments],
        settings,
        settings.launcher_cpu,
        {"memory": settings.launcher_memory},
        [{"name": TEMPORARY, "mountPath": MOUNT_PATHS[TEMPORARY]}],
    )
    placed = {
        "nodeSelector": dict(settings.launcher_node_selector),
        "tolerations": [dict(toleration) for toleration in settings.launcher_tolerations],
    }
    return _template(settings, launcher, [{"name": TEMPORARY, "emptyDir": {}}], placed)


def _worker(parameters: LaunchParameters, settings: JobSettings) -> dict[str, Any]:
    template = training_pod(parameters, settings, WORKER, ["/usr/sbin/sshd", "-De", "-f", SSHD_CONFIG])
    (worker,) = template["spec"]["containers"]
    worker["readinessProbe"] = {"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 2, "timeoutSeconds": 2}
    return template


def training_pod(
    parameters: LaunchParameters, settings: JobSettings, name: str, command: Sequence[str], component: str = _COMPONENT
) -> dict[str, Any]:
    """The template of a pod that trains: a worker of an MPIJob, or a trial of Katib.

    Args:
        parameters: workers_per_pod, gpus_per_worker and the sizes.
        component: part of kfrec that it is, for the network policies.
    """
    limits = {"memory": parameters.pod_memory, **{name: str(amount) for name, amount in settings.resources.items()}}
    tolerations: list[Mapping[str, Any]] = list(settings.tolerations)
    if gpus := parameters.gpus_per_worker * parameters.workers_per_pod:
        limits[settings.gpu_resource] = str(gpus)
        tolerations.append({"key": settings.gpu_resource, "operator": "Exists", "effect": "NoSchedule"})
    mounts = [*({"name": name, "mountPath": path} for name, path in MOUNT_PATHS.items()), *settings.volume_mounts]
    trainer = _container(name, command, settings, parameters.pod_cpu, limits, mounts)
    if settings.capabilities:
        trainer["securityContext"]["capabilities"]["add"] = list(settings.capabilities)
    own: dict[str, Mapping[str, Any]] = {
        SHARED_MEMORY: {"emptyDir": {"medium": "Memory", "sizeLimit": parameters.shared_memory}},
        STAGING: {"emptyDir": {"sizeLimit": settings.stage_size}},
        TEMPORARY: {"emptyDir": {}},
    }
    configured = {volume["name"]: volume for volume in settings.volumes}
    volumes = [{"name": key, **configured.pop(key, volume)} for key, volume in own.items()] + list(configured.values())
    placed = {
        "nodeSelector": dict(settings.node_selector),
        "tolerations": [dict(toleration) for toleration in tolerations],
        "affinity": dict(settings.affinity),
    }
    return _template(settings, trainer, volumes, placed, component)


def _environment(settings: JobSettings) -> list[dict[str, Any]]:
    plain = {EVENTS: "1", "PYTHONUNBUFFERED": "1", "TF_CPP_MIN_LOG_LEVEL": "2", "HOME": "/tmp", **settings.environment}
    held = {"configMapKeyRef": settings.config_environment, "secretKeyRef": settings.secret_environment}
    referred = [
        {"name": key, "valueFrom": {kind: {"name": name, "key": key, "optional": True}}}
        for kind, paths in held.items()
        for name, keys in paths.items()
        for key in keys
    ]
    return [{"name": name, "value": value} for name, value in plain.items()] + referred


def _container(
    name: str,
    command: Sequence[str],
    settings: JobSettings,
    cpu: str,
    limits: Mapping[str, str],
    mounts: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """A container that requests ``cpu``, and ``limits`` as its limits, too."""
    return {
        "name": name,
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": list(command),
        "env": _environment(settings),
        "resources": {"requests": {"cpu": cpu, **limits}, "limits": dict(limits)},
        "securityContext": container_security(),
        "volumeMounts": [dict(mount) for mount in mounts],
    }


def _template(
    settings: JobSettings,
    only: Mapping[str, Any],
    volumes: Sequence[Mapping[str, Any]],
    placed: Mapping[str, Any],
    component: str = _COMPONENT,
) -> dict[str, Any]:
    """The template of a pod of one container, without empty entries in its specification."""
    spec = {
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": False,
        "securityContext": pod_security(),
        "containers": [only],
        "volumes": [dict(volume) for volume in volumes],
        "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
        "priorityClassName": settings.priority_class,
        "schedulerName": settings.scheduler,
        **placed,
    }
    return {
        "metadata": {"labels": _labels(settings, component), "annotations": {**_NO_MESH, **settings.annotations}},
        "spec": {name: value for name, value in spec.items() if value not in ("", {}, [])},
    }
