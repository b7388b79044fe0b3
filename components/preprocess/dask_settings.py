"""A cluster's settings for preprocessing on Dask; settings of a single run are parameters of the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from components.steps.images import image
from components.steps.settings_file import Quantity, Several


@dataclass(frozen=True)
class DaskSettings:
    """Settings of every DaskCluster, from the YAML file that the parameter dask_settings names.

    Attributes:
        shared_folder: folder that the step and every worker see at this path; empty is the disk of the step's output,
            which only the workers of an existing scheduler on the same disk see.
        shared_volume: the volume that a DaskCluster's pods mount there, as in a pod, without its name.
        namespace: where clusters run; empty is the namespace of the step's own pod.
        image: image of scheduler and workers, the same as the step's own.
        image_pull_policy: as in a pod.
        image_pull_secrets: names of secrets.
        service_account: service account of the pods; needs no rights in Kubernetes.
        node_selector: label: value of the pods' nodes.
        tolerations: tolerations of the pods, beside the one for GPU nodes.
        affinity: affinity, as in a pod.
        priority_class: priority class of the pods.
        environment: variable: value, for scheduler and workers.
        labels: more labels of the pods.
        annotations: more annotations of the pods.
        scheduler_cpu: request of the scheduler.
        scheduler_memory: request and limit of the scheduler.
        worker_cpu: request of a worker, which does one task at a time.
        worker_memory: request and limit of a worker.
        worker_gpus: GPUs of a worker. The step itself needs one where the workers have one, and none where they do not.
        gpu_resource: name of the GPU resource.
        temporary_size: disk of a worker at /tmp.
        start_seconds: how long scheduler and workers may take to start, nodes and images included.
        address: address of the scheduler's service.
    """

    shared_folder: str = ""
    shared_volume: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ""
    image: str = image("preprocess")
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: Several[str] = ()
    service_account: str = "kfrec-worker"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Several[Mapping[str, Any]] = ()
    affinity: Mapping[str, Any] = field(default_factory=dict)
    priority_class: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    scheduler_cpu: Quantity = "1"
    scheduler_memory: Quantity = "4Gi"
    worker_cpu: Quantity = "2"
    worker_memory: Quantity = "16Gi"
    worker_gpus: Annotated[int, Field(ge=0)] = 0
    gpu_resource: str = "nvidia.com/gpu"
    temporary_size: Quantity = "20Gi"
    start_seconds: Annotated[int, Field(ge=1)] = 1800
    address: str = "tcp://{name}-scheduler.{namespace}.svc:8786"
