"""A cluster's settings for its training pods; settings of a single run are parameters of the train step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from components.cluster.template import Affinity, PodSettings, Toleration
from components.images import WORKER_IMAGE
from components.settings_file import CLOSED, OPEN, Quantity, Several
from components.train.launching.launch import STAGE

# Volumes of every worker, and their mount paths.
SHARED_MEMORY, STAGING, TEMPORARY = "shared-memory", "stage", "tmp"
MOUNT_PATHS = {SHARED_MEMORY: "/dev/shm", STAGING: STAGE, TEMPORARY: "/tmp"}


class Volume(TypedDict):
    """A volume, as in a pod."""

    __pydantic_config__ = OPEN  # type: ignore[misc]
    name: str


class VolumeMount(TypedDict):
    """Where a volume is mounted, as in a container."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    name: str
    mountPath: str
    subPath: NotRequired[str]
    readOnly: NotRequired[bool]
    mountPropagation: NotRequired[str]


@dataclass(frozen=True)
class JobSettings(PodSettings):
    """Settings of every MPIJob, from the YAML file that the parameter job_settings names, and those beside it.

    ``environment`` is of the launcher and every rank; node_selector, tolerations and affinity are of the workers.

    Attributes:
        namespace: where the objects run; empty is the namespace of the step's own pod.
        service_account: of the pods; it needs no rights in Kubernetes, only in the object storage.
        launcher_node_selector: label: value of the launcher's node.
        queue: LocalQueue of Kueue that admits the job; empty is none.
        scheduler: name of the scheduler, such as volcano; empty is the cluster's default.
        scheduling_policy: runPolicy.schedulingPolicy, for gang scheduling by Volcano or the scheduler plugins; its
            minAvailable is always the number of workers.
        config_environment: config map: list of its keys that become variables; what does not exist stays unset.
        forwarded: variables that the cluster puts into pods (such as AWS_ROLE_ARN) and that the ranks need.
        resources: further resources of a worker, as its request and its limit: network devices for RDMA
            (vpc.amazonaws.com/efa, rdma/hca), hugepages-2Mi, ephemeral-storage.
        capabilities: that a worker's container keeps, such as IPC_LOCK. They only help root: Kubernetes passes none to
            other users, so RDMA needs nodes without a limit on locked memory.
        volumes: more volumes of the workers, as in a pod. One named stage, shared-memory or tmp replaces the worker's
            default volume, such as a node's SSD for stage.
        volume_mounts: where the workers have them, as in a container.
        ssh_seconds: how long a launcher waits until every worker's name resolves and its sshd answers. It includes
            nodes and images of the workers after a wait in a queue.
        stage_size: disk of a worker for records and results.
        ttl_seconds_after_finished: how long a finished job is kept.
    """

    image: str = WORKER_IMAGE
    namespace: str = ""
    image_pull_policy: str = "IfNotPresent"
    service_account: str = "kfrec-worker"
    affinity: Affinity = field(default_factory=Affinity)
    priority_class: str = ""
    launcher_node_selector: Mapping[str, str] = field(default_factory=dict)
    launcher_tolerations: Several[Toleration] = ()
    queue: str = ""
    scheduler: str = ""
    scheduling_policy: Mapping[str, Any] = field(default_factory=dict)
    config_environment: Mapping[str, list[str]] = field(default_factory=dict)
    secret_environment: Mapping[str, list[str]] = field(default_factory=dict)
    forwarded: Several[str] = ()
    launcher_cpu: Quantity = "1"
    launcher_memory: Quantity = "2Gi"
    resources: Mapping[str, Quantity] = field(default_factory=dict)
    capabilities: Several[str] = ()
    volumes: Several[Volume] = ()
    volume_mounts: Several[VolumeMount] = ()
    ssh_seconds: Annotated[int, Field(ge=1)] = 3600
    stage_size: Quantity = "200Gi"
    ttl_seconds_after_finished: Annotated[int, Field(ge=0)] = 86_400

    def __post_init__(self) -> None:
        for name in ("cpu", "memory", self.gpu_resource):
            if name in self.resources:
                raise ValueError(f"resources: {name} is a parameter of the train step; take it out here")
        names = {volume["name"] for volume in self.volumes} | set(MOUNT_PATHS)
        for mount in self.volume_mounts:
            if mount["name"] not in names:
                raise ValueError(f"volume_mounts: {mount['name']} is none of the volumes {', '.join(sorted(names))}")
        paths = Counter([*MOUNT_PATHS.values(), *(str(mount["mountPath"]).rstrip("/") for mount in self.volume_mounts)])
        for path in (path for path, often in paths.items() if often > 1):
            raise ValueError(
                f"volume_mounts: {path} is mounted twice; name the volume of that place in volumes instead"
            )
