"""A Katib Experiment with the search space of a local sweep."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.errors import KfrecError
from components.images import REGISTRY, WORKER_IMAGE
from components.parameters import parameters_of
from components.settings_file import load_settings_file
from components.steps.catalog import STEPS, LaunchParameters, worker_parameters
from components.storage import is_uri
from components.train.launching.launch import MODULE
from components.train.mpijob.job import training_pod
from components.train.mpijob.settings import JobSettings
from pipelines.parameters import checked, step_parameters
from pipelines.sweep.plan import Dimension, Katib, Plan

# Where Katib mounts a volume for the results, since its collector reads the log there; the pod has none of its own.
_RESULTS = "/results"
_LOG = f"{_RESULTS}/log.json"
_CONTAINER = "training"
_TYPES = {int: "int", float: "double"}
# The training log has one JSON line per epoch, with validation_auc and others; Katib extracts names and numbers.
_FORMAT = r'"([a-z_]+)": ([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)'
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def experiment(plan: Plan, path: Path, registry: str = "") -> dict[str, Any]:
    """The Experiment, kubeflow.org/v1beta1; a trial is a Job with one training pod.

    Raises:
        KfrecError: a setting for the cluster is missing or wrong.
    """
    katib = Katib(**plan.katib)
    if not katib.data.strip():
        raise KfrecError(f"{path}: katib has no data; name the records, such as gs://bucket/tfrecord")
    if not (is_uri(katib.data) or katib.data.startswith("/")):
        raise KfrecError(f"{path}: katib: data: {katib.data!r} is neither a URI nor a path in the pods; correct it")
    if not _NAME.fullmatch(katib.name):
        raise KfrecError(f"{path}: katib: name: {katib.name!r} is not valid; use lowercase letters, digits and dashes")
    metric = plan.metric_name
    return {
        "apiVersion": "kubeflow.org/v1beta1",
        "kind": "Experiment",
        "metadata": {"name": katib.name, "namespace": katib.namespace},
        "spec": {
            "objective": {
                "type": "maximize" if plan.metric.higher_is_better else "minimize",
                "objectiveMetricName": metric,
                "metricStrategies": [{"name": metric, "value": "latest"}],
            },
            "algorithm": {
                "algorithmName": "tpe",
                "algorithmSettings": [{"name": "random_state", "value": str(plan.seed)}],
            },
            **(_early_stopping(plan) if plan.prune else {}),
            "maxTrialCount": plan.trials,
            "parallelTrialCount": plan.parallel or 1,
            "maxFailedTrialCount": max(1, plan.trials // 4),
            "parameters": [_parameter(name, each, plan) for name, each in plan.dimensions.items()],
            "metricsCollectorSpec": {
                "collector": {"kind": "File"},
                "source": {
                    "fileSystemPath": {"path": _LOG, "kind": "File", "format": "TEXT"},
                    "filter": {"metricsFormat": [_FORMAT]},
                },
            },
            "trialTemplate": _template(plan, katib, path, registry),
        },
    }


def _early_stopping(plan: Plan) -> dict[str, Any]:
    settings = [{"name": "min_trials_required", "value": str(plan.prune_after)}, {"name": "start_step", "value": "1"}]
    return {"earlyStopping": {"algorithmName": "medianstop", "algorithmSettings": settings}}


def _parameter(name: str, dimension: Dimension, plan: Plan) -> dict[str, Any]:
    kind = _TYPES.get(plan.searchable()[name].value_type, "")
    if dimension.choices:
        space: dict[str, Any] = {"list": [_text(value) for value in dimension.choices]}
        return {"name": name, "parameterType": "categorical", "feasibleSpace": space}
    space = {"min": _text(dimension.low), "max": _text(dimension.high)}
    if dimension.log:
        space["distribution"] = "logUniform"
    return {"name": name, "parameterType": kind, "feasibleSpace": space}


def _template(plan: Plan, katib: Katib, path: Path, registry: str) -> dict[str, Any]:
    # The webhook joins a command with blanks and lets a shell run it, unless it is a shell's already.
    command = shlex.join(["python", "-m", MODULE, *_arguments(plan, katib)])
    settings = _settings(katib, path, registry)
    pod = training_pod(_sizes(plan, katib), settings, _CONTAINER, ["sh", "-c", command], "trial")
    pod["spec"]["restartPolicy"] = "Never"
    return {
        "primaryContainerName": _CONTAINER,
        "trialParameters": [{"name": name, "reference": name} for name in plan.search],
        "trialSpec": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"backoffLimit": 0, "template": pod}},
    }


def _settings(katib: Katib, path: Path, registry: str) -> JobSettings:
    """The cluster's settings of training pods, with the image of the trials."""
    file = Path(katib.job_settings)
    if katib.job_settings and not file.is_file():
        raise KfrecError(f"{path}: katib: job_settings: {katib.job_settings}: no such file; correct the path")
    settings = load_settings_file(file, JobSettings) if katib.job_settings else JobSettings()
    image = katib.image or (settings.image if settings.image != WORKER_IMAGE else "")
    if not (image or registry):
        raise KfrecError(
            f"{path}: katib: the image of the trials has no registry; set {REGISTRY}, give --registry PREFIX, or name "
            "image or job_settings"
        )
    return replace(settings, image=image or f"{registry.rstrip('/')}/{WORKER_IMAGE}")


def _sizes(plan: Plan, katib: Katib) -> LaunchParameters:
    """What a pod of one process requests: the sizes that the plan fixes, or else the train step's defaults."""
    fixed = checked(plan.parameters, plan.pipeline)
    wide = {p.name: p.pipeline_name for p in step_parameters(STEPS["train"], plan.pipeline)}
    sizes = {name: fixed[wide[name]] for name in ("pod_cpu", "pod_memory", "shared_memory") if wide[name] in fixed}
    return LaunchParameters(**sizes, gpus_per_worker=katib.gpus)


def _arguments(plan: Plan, katib: Katib) -> list[str]:
    """The worker's arguments: the fixed parameters, and placeholders for the searched ones."""
    own = {p.name for p in parameters_of(worker_parameters(plan.model, plan.task))}
    wide = {p.pipeline_name: p.name for p in step_parameters(STEPS["train"], plan.pipeline) if p.name in own}
    fixed = {name: value for name, value in checked(plan.parameters, plan.pipeline).items() if name in wide}
    words = {"dataset_dir": katib.data, "results_dir": _RESULTS, "model_type": plan.model}
    words |= {wide[name]: _text(value) for name, value in fixed.items()}
    words |= {wide[name]: f"${{trialParameters.{name}}}" for name in plan.search}
    return [f"--{name}={value}" for name, value in words.items()]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
