"""The DaskCluster object (kubernetes.dask.org/v1) of a preprocess step.

As the operator's controller reads it (dask/dask-kubernetes, operator/controller/controller.py at afa527f): the object's
labels and annotations become those of all its pods, the scheduler's service is given whole, a worker is a Deployment of
one pod and learns the scheduler's address from DASK_SCHEDULER_ADDRESS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.cluster.api import Kind
from components.cluster.owner import Owner
from components.cluster.template import NO_MESH, container, named, own_labels, pod_spec
from components.preprocess.dask_settings import DaskSettings

KIND = Kind(
    name="DaskCluster",
    group="kubernetes.dask.org",
    version="v1",
    plural="daskclusters",
    pod_label="dask.org/cluster-name",
    asked_by="dask_workers",
    instead="dask_workers=0 for processes of this machine",
)
COMPONENT_LABEL, SCHEDULER, WORKER = "dask.org/component", "scheduler", "worker"
# The pod of the step that created it: a cluster whose step has ended is abandoned.
POD_ANNOTATION = "kfrec.io/pod"
OWN_LABELS = own_labels("dask")
_PORTS = {"tcp-comm": 8786, "http-dashboard": 8787}
_SHARED, _TMP = "shared", "tmp"
_SCHEDULER_COMMAND = ["python", "-m", "distributed.cli.dask_scheduler"]
# No worker name: a scheduler that still waits for a lost worker would reject another one of its name. No nanny and no
# memory limit of Dask: a worker that exceeds its memory ends with its pod, whose status shows it.
_WORKER_COMMAND = [
    "python", "-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads=1", "--memory-limit=0", "--no-dashboard",
    "--preload=components.workflows.nvtabular_quiet",
]  # fmt: skip


def dask_cluster(
    name: str, namespace: str, workers: int, settings: DaskSettings, owner: Owner | None = None, pod: str = ""
) -> dict[str, Any]:
    """The object to create.

    Args:
        name: cluster name, the prefix of the names of pods and service.
        namespace: where it runs.
        workers: pods, each with one process.
        settings: cluster settings.
        owner: owner reference, if any.
        pod: the step's pod.
    """
    annotations = {**NO_MESH, **settings.annotations}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": OWN_LABELS | dict(settings.labels),
        "annotations": annotations | ({POD_ANNOTATION: pod} if pod else {}),
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner.reference()]
    scheduler = _container(SCHEDULER, _SCHEDULER_COMMAND, settings, settings.scheduler_cpu, settings.scheduler_memory)
    scheduler |= {
        "ports": [{"name": port, "containerPort": number} for port, number in _PORTS.items()],
        "readinessProbe": {"tcpSocket": {"port": "tcp-comm"}, "periodSeconds": 2},
    }
    worker = _container(
        WORKER, _WORKER_COMMAND, settings, settings.worker_cpu, settings.worker_memory, settings.worker_gpus
    )
    spec = {
        "idleTimeout": 0,  # never: a scheduler is idle while the step reads
        "scheduler": {"spec": _pod(settings, scheduler), "service": _service(name)},
        "worker": {"replicas": workers, "spec": _pod(settings, worker, settings.worker_gpus)},
    }
    return {"apiVersion": f"{KIND.group}/{KIND.version}", "kind": KIND.name, "metadata": metadata, "spec": spec}


def _service(name: str) -> dict[str, Any]:
    return {
        "type": "ClusterIP",
        "selector": {KIND.pod_label: name, COMPONENT_LABEL: SCHEDULER},
        "ports": [
            {"name": port, "protocol": "TCP", "port": number, "targetPort": port} for port, number in _PORTS.items()
        ],
    }


def _container(
    name: str, command: Sequence[str], settings: DaskSettings, cpu: str, memory: str, gpus: int = 0
) -> dict[str, Any]:
    limits = {"memory": memory} | ({settings.gpu_resource: str(gpus)} if gpus else {})
    env = named({"PYTHONUNBUFFERED": "1", "HOME": "/tmp", **settings.environment})
    mounts = [{"name": _TMP, "mountPath": "/tmp"}, {"name": _SHARED, "mountPath": settings.shared_folder}]
    return container(name, command, settings, env, cpu, limits, mounts)


def _pod(settings: DaskSettings, only: Mapping[str, Any], gpus: int = 0) -> dict[str, Any]:
    volumes = [
        {"name": _TMP, "emptyDir": {"sizeLimit": settings.temporary_size}},
        {"name": _SHARED, **settings.shared_volume},
    ]
    spec = pod_spec(settings, only, volumes, settings.placed(gpus))
    # A shared volume may be large: its files are not chowned at every start.
    spec["securityContext"]["fsGroupChangePolicy"] = "OnRootMismatch"
    return spec
