"""A Katib Experiment with the search space of a local sweep."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from components.errors import KfrecError
from components.images import WORKER_IMAGE
from components.parameters import parameters_of
from components.steps.catalog import STEPS, worker_parameters
from components.storage import is_uri
from pipelines.parameters import checked, step_parameters
from pipelines.sweep.plan import Dimension, Katib, Plan

_RESULTS = "/results"
_LOG = f"{_RESULTS}/log.json"
_TYPES = {int: "int", float: "double"}
# The training log has one JSON line per epoch, with validation_auc and others; Katib extracts names and numbers.
_FORMAT = r'"([a-z_]+)": ([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)'
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def experiment(plan: Plan, path: Path, registry: str = "") -> dict[str, Any]:
    """The Experiment, kubeflow.org/v1beta1; a trial is a Job with one training pod.

    Args:
        plan: of the sweep.
        path: its file, for messages.
        registry: prefix of the image's name.

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
            "trialTemplate": _template(plan, katib, registry),
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


def _template(plan: Plan, katib: Katib, registry: str) -> dict[str, Any]:
    image = katib.image or (f"{registry.rstrip('/')}/{WORKER_IMAGE}" if registry else WORKER_IMAGE)
    gpus = {"resources": {"limits": {"nvidia.com/gpu": katib.gpus}}} if katib.gpus else {}
    container = {
        "name": "training",
        "image": image,
        "command": ["python", "-m", "components.train.worker", *_arguments(plan, katib)],
        "volumeMounts": [{"name": "results", "mountPath": _RESULTS}],
        **gpus,
    }
    return {
        "primaryContainerName": "training",
        "trialParameters": [{"name": name, "reference": name} for name in plan.search],
        "trialSpec": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "spec": {
                "backoffLimit": 0,
                "template": {
                    "metadata": {"annotations": {"sidecar.istio.io/inject": "false"}},
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [container],
                        "volumes": [{"name": "results", "emptyDir": {}}],
                    },
                },
            },
        },
    }


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
