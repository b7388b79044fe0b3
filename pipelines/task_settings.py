"""The resources of each step on a cluster: read from YAML, validated, and applied to the pipeline's tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from components.cluster.template import NodeAffinity, PodSettings
from components.errors import KfrecError
from components.images import REGISTRY, step_image
from components.settings_file import Quantity, checked, read_yaml, require_mapping
from components.steps.catalog import STEPS
from pipelines.defaults import LARGE, SMALL

if TYPE_CHECKING:
    from kfp.dsl.pipeline_task import PipelineTask

DEFAULTS = Path(__file__).with_suffix(".yaml")
_OF_SMALL_DATA = DEFAULTS.with_name("small_data.yaml")
_EVERY, _STEPS, _EXIT = "every_step", "steps", "exit_task"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SCRATCH = {"volume_name": "scratch", "mount_path": "/tmp"}


@dataclasses.dataclass(frozen=True)
class TaskSettings(PodSettings):
    """Settings of one step's task; the YAML file of the same name documents each one."""

    cpu: Quantity = "1"
    memory: Quantity = "4Gi"
    gpus: Literal[0, 1, 2, 4, 8, 16] = 0
    node_affinity: NodeAffinity = dataclasses.field(default_factory=NodeAffinity)
    retries: Annotated[int, Field(ge=0)] = 0
    retry_wait: Annotated[int, Field(ge=1)] = 60
    timeout: Annotated[int, Field(ge=1)] = 21_600
    cache: bool = True
    scratch: Quantity = "20Gi"
    scratch_volume: Literal["emptyDir", "ephemeral"] = "emptyDir"
    scratch_class: str = ""
    config_maps: Mapping[str, str] = dataclasses.field(default_factory=dict)
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    claims: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pod_fields: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def apply(self, task: PipelineTask) -> None:
        from kfp import kubernetes

        task.set_cpu_request(self.cpu).set_memory_request(self.memory).set_memory_limit(self.memory)
        if self.gpus:
            task.set_accelerator_type(self.gpu_resource).set_accelerator_limit(self.gpus)
        task.set_retry(self.retries, backoff_duration=f"{self.retry_wait}s", backoff_factor=2.0)
        task.set_caching_options(self.cache)
        for name, value in self.environment.items():
            task.set_env_variable(name, value)
        kubernetes.set_timeout(task, self.timeout)
        kubernetes.set_image_pull_policy(task, "IfNotPresent")
        # KFP adds the rest of what a namespace asks for that enforces `restricted`, from 2.17 on.
        kubernetes.set_security_context(task, run_as_non_root=True)
        if self.scratch_volume == "ephemeral":
            kubernetes.add_ephemeral_volume(
                task,
                **_SCRATCH,
                access_modes=["ReadWriteOnce"],
                size=self.scratch,
                storage_class_name=self.scratch_class or None,
            )
        else:
            kubernetes.empty_dir_mount(task, **_SCRATCH, size_limit=self.scratch)
        if self.image_pull_secrets:
            kubernetes.set_image_pull_secrets(task, list(self.image_pull_secrets))
        for label, value in self.node_selector.items():
            kubernetes.add_node_selector(task, label, value)
        for toleration in self.tolerations:
            values: dict[str, Any] = dict(toleration)
            kubernetes.add_toleration(task, toleration_seconds=values.pop("tolerationSeconds", None), **values)
        for name, folder in self.config_maps.items():
            kubernetes.use_config_map_as_volume(task, name, folder, optional=True)
        for name, folder in self.secrets.items():
            kubernetes.use_secret_as_volume(task, name, folder, optional=True)
        for name, folder in self.claims.items():
            kubernetes.mount_pvc(task, name, folder)
        for name, field in self.pod_fields.items():
            kubernetes.use_field_path_as_env(task, name, field)
        for label, value in self.labels.items():
            kubernetes.add_pod_label(task, label, value)
        for name, value in self.annotations.items():
            kubernetes.add_pod_annotation(task, name, value)
        if terms := _node_affinity_terms(self.node_affinity):
            # The SDK has no function for this field; KFP's driver reads it since 2.14.
            task.platform_config["kubernetes"]["nodeAffinity"] = terms


@dataclasses.dataclass(frozen=True)
class ClusterSettings:
    """Settings of every step.

    Attributes:
        source: their file, for messages.
        size: of the data, which the defaults of the pipelines' parameters are for too.
        exit_task: settings of the task that tells how a run has ended; None is no such task.
    """

    registry: str
    steps: Mapping[str, TaskSettings]
    source: Path = DEFAULTS
    size: str = LARGE
    exit_task: TaskSettings | None = None

    def configure(self, task: PipelineTask, step: str) -> None:
        """Applies image and settings to the task of a step."""
        self.configure_task(task, self.steps[step], f"the step {step}")

    def configure_task(self, task: PipelineTask, own: TaskSettings, what: str) -> None:
        """Applies image and settings to a task; ``what`` names it in messages.

        Raises:
            KfrecError: KFP refuses a setting.
        """
        task.set_container_image(own.image or step_image(self.registry))
        try:
            own.apply(task)
        except (ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise KfrecError(f"{self.source}: settings of {what}: {reason}; correct them") from None

    def require_images(self, steps: Iterable[str]) -> None:
        """Refuses steps whose images no node would find.

        Raises:
            KfrecError: neither a registry nor the settings of a step name its image.
        """
        unnamed = [step for step in steps if not (self.registry or self.steps[step].image)]
        if unnamed:
            raise KfrecError(
                f"the images of {', '.join(unnamed)} have no registry; set {REGISTRY}, give --registry PREFIX, or name "
                "each image in the --settings file"
            )

    def without_cache(self) -> ClusterSettings:
        """A copy with caching disabled for all steps."""
        steps = {name: dataclasses.replace(settings, cache=False) for name, settings in self.steps.items()}
        return dataclasses.replace(self, steps=steps)


def _node_affinity_terms(affinity: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A pod's nodeAffinity as terms of KFP's platform specification; terms with a weight are preferences.

    Raises:
        ValueError: not a valid nodeAffinity.
    """
    from google.protobuf import json_format
    from kfp.kubernetes import kubernetes_executor_config_pb2 as kfp

    try:
        terms = list(affinity[_REQUIRED]["nodeSelectorTerms"]) if _REQUIRED in affinity else []
        for entry in affinity.get(_PREFERRED, ()):
            terms.append({**entry["preference"], "weight": entry["weight"]})
        for term in terms:
            json_format.ParseDict(term, kfp.NodeAffinityTerm())
    except (json_format.ParseError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"node_affinity: {affinity!r} is not a pod's nodeAffinity ({error})") from None
    return terms


def load_settings(file: Path | None = None, registry: str = "", size: str = LARGE) -> ClusterSettings:
    """The defaults for data of a size, overridden by ``file``.

    Raises:
        KfrecError: the registry is an address, no such file, not YAML, an unknown name, or a value of the wrong type.
    """
    if "://" in registry or "@" in registry:
        raise KfrecError(
            f"--registry {registry}: is an address; give the prefix of images, such as registry.example/team"
        )
    of_size = _OF_SMALL_DATA if size == SMALL else None
    layers = [_read(path) for path in (DEFAULTS, of_size, file) if path is not None]
    steps = {}
    for step in STEPS:
        values: dict[str, Any] = {}
        for every, own, _ in layers:
            values |= every | own.get(step, {})
        steps[step] = TaskSettings(**values)
    ending = None
    if any(own is not None for *_, own in layers):
        values = {}
        for every, _, exit_task in layers:
            values |= every | (exit_task or {})
        # It has nothing to reuse: each run ends once.
        ending = TaskSettings(**values | {"cache": False})
    return ClusterSettings(registry, steps, file or DEFAULTS, size, ending)


_Layer = tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, Any] | None]


def _read(path: Path) -> _Layer:
    body = require_mapping(str(path), read_yaml(path), (_EVERY, _STEPS, _EXIT))
    steps = require_mapping(f"{path}: {_STEPS}", body.get(_STEPS) or {}, STEPS)
    every = checked(f"{path}: {_EVERY}", body.get(_EVERY) or {}, TaskSettings)
    own = {step: checked(f"{path}: {step}", values or {}, TaskSettings) for step, values in steps.items()}
    ending = checked(f"{path}: {_EXIT}", body[_EXIT] or {}, TaskSettings) if _EXIT in body else None
    return every, own, ending
