"""What a cluster decides once for all its MPIJobs; what a run may change are parameters of the train step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.steps.images import WORKER_IMAGE
from components.steps.settings_file import setting


@dataclass(frozen=True)
class JobSettings:
    """Settings of every MPIJob, from the YAML file that the parameter job_settings names.

    Attributes:
        namespace: where jobs run; empty is the namespace of the step's own pod.
        image: of launcher and workers.
        image_pull_policy: as in a pod.
        image_pull_secrets: names of secrets.
        service_account: of the pods; they need no rights in Kubernetes, only in the object storage.
        node_selector: label: value of the workers' nodes.
        tolerations: of the workers, beside the one for GPU nodes.
        affinity: of the workers, as in a pod.
        priority_class: of the pods.
        queue: LocalQueue of Kueue that admits the job; empty is none.
        scheduler: name of the scheduler, such as volcano; empty is the cluster's default.
        scheduling_policy: runPolicy.schedulingPolicy, for gang scheduling by Volcano or the scheduler plugins; its
            minAvailable is always the number of workers.
        environment: variable: value, for launcher and every rank.
        secret_environment: secret: list of its keys that become variables; what does not exist stays unset.
        forwarded: variables that the cluster puts into pods (such as AWS_ROLE_ARN) and that the ranks need.
        labels: more labels of the pods.
        annotations: more annotations of the pods.
        launcher_cpu: request of the launcher.
        launcher_memory: request and limit of the launcher.
        gpu_resource: name of the GPU resource.
        ssh_seconds: how long a launcher waits until every worker's name resolves and its sshd answers.
        stage_size: disk of a worker for records and results.
        ttl_seconds_after_finished: how long a finished job is kept.
    """

    namespace: str = ""
    image: str = WORKER_IMAGE
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    service_account: str = "kfrec-worker"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] = field(default_factory=dict)
    priority_class: str = ""
    queue: str = ""
    scheduler: str = ""
    scheduling_policy: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    secret_environment: Mapping[str, list[str]] = field(default_factory=dict)
    forwarded: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    launcher_cpu: str = setting("1", is_quantity=True)
    launcher_memory: str = setting("2Gi", is_quantity=True)
    gpu_resource: str = "nvidia.com/gpu"
    ssh_seconds: int = setting(600, at_least=1)
    stage_size: str = setting("200Gi", is_quantity=True)
    ttl_seconds_after_finished: int = setting(86_400, at_least=0)
