"""A cluster's settings for preprocessing on Dask; settings of a single run are parameters of the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from components.cluster.template import PodSettings
from components.steps.images import image
from components.steps.settings_file import Quantity


@dataclass(frozen=True)
class DaskSettings(PodSettings):
    """Settings of every DaskCluster, from the YAML file that the parameter dask_settings names.

    Attributes:
        shared_folder: folder that the step and every worker see at this path; empty is the disk of the step's output,
            which only the workers of an existing scheduler on the same disk see.
        shared_volume: the volume that a DaskCluster's pods mount there, as in a pod, without its name.
        image: of scheduler and workers, the same as the step's own.
        scheduler_cpu: request of the scheduler.
        scheduler_memory: request and limit of the scheduler.
        worker_cpu: request of a worker, which does one task at a time.
        worker_memory: request and limit of a worker.
        worker_gpus: GPUs of a worker. The step itself needs one where the workers have one, and none where they do not.
        temporary_size: disk of a worker at /tmp.
        start_seconds: how long scheduler and workers may take to start, nodes and images included.
        address: address of the scheduler's service.
    """

    shared_folder: str = ""
    shared_volume: Mapping[str, Any] = field(default_factory=dict)
    image: str = image("preprocess")
    scheduler_cpu: Quantity = "1"
    scheduler_memory: Quantity = "4Gi"
    worker_cpu: Quantity = "2"
    worker_memory: Quantity = "16Gi"
    worker_gpus: Annotated[int, Field(ge=0)] = 0
    temporary_size: Quantity = "20Gi"
    start_seconds: Annotated[int, Field(ge=1)] = 1800
    address: str = "tcp://{name}-scheduler.{namespace}.svc:8786"
