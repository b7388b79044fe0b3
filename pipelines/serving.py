"""A KServe InferenceService that serves one version of a registered model with ``kfrec serve``.

The manifest pins the version, so that all replicas serve the same one; apply a new manifest to serve a new champion.
Or the replicas follow an alias: each of them loads a new version, and switches to it, by itself.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import yaml

from components.cluster.template import container_security, own_labels, pod_security
from components.errors import KfrecError
from components.images import step_image

PORT = 8080
# A Deployment: scaling to zero is no use to a server that loads TensorFlow first, and Knative allows less of a pod.
_MODE = {"serving.kserve.io/deploymentMode": "RawDeployment"}
_NAME = r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?"


def inference_service(
    model: str, version: str, name: str = "kfrec", registry: str = "", alias: str = "", log: str = ""
) -> dict[str, Any]:
    """The InferenceService object.

    Args:
        alias: whose versions are served, this one first; empty keeps to the version.
        log: URI of the log of served rows; empty logs nothing.

    Raises:
        KfrecError: not a valid Kubernetes name.
    """
    if not re.fullmatch(_NAME, name):
        raise KfrecError(
            f"--name {name!r} names no service; give lower-case letters, digits and -, at most 52, a letter first"
        )
    probe = {"httpGet": {"path": "/ping", "port": PORT}}
    container = {
        "name": "kserve-container",
        "image": step_image(registry),
        "command": ["kfrec", "serve"],
        "args": [
            f"{model}@{alias}" if alias else f"{model}/{version}", "--host=0.0.0.0", f"--port={PORT}",
            *([f"--log={log}"] if log else []),
        ],
        "ports": [{"containerPort": PORT, "protocol": "TCP"}],
        "env": [{"name": "HOME", "value": "/tmp"}, {"name": "MLFLOW_DISABLE_TELEMETRY", "value": "true"}],
        "envFrom": [
            {"configMapRef": {"name": "kfrec-config"}},
            {"secretRef": {"name": "kfrec-mlflow", "optional": True}},
            {"secretRef": {"name": "kfrec-object-store", "optional": True}},
        ],
        # Loading TensorFlow and the model dominates the startup time.
        "startupProbe": {**probe, "periodSeconds": 5, "failureThreshold": 120},
        "readinessProbe": probe,
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
        # All on the container: Knative refuses a securityContext of the pod, in the mode that takes it.
        "securityContext": {**_user(), **container_security()},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }  # fmt: skip
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": name,
            "labels": own_labels("serving"),
            "annotations": {**_MODE, "kfrec.io/model": model, "kfrec.io/version": version},
        },
        "spec": {
            "predictor": {
                "minReplicas": 1,
                "automountServiceAccountToken": False,
                "containers": [container],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            }
        },
    }


# The first KServe whose plain Deployments have canaries; older ones drop the field.
_CANARIES = (0, 20)


def with_canary(service: Mapping[str, Any], version: str, percent: int, kserve: str) -> dict[str, Any]:
    """An InferenceService that answers a share of its requests with another version of its model.

    Source: KServe's field ``spec.canary`` of plain Deployments, kserve/kserve pull request 5672.

    Args:
        service: of ``inference_service``.
        percent: share of the requests, from 1 to 99.
        kserve: KServe's version in the cluster, such as "0.20".

    Raises:
        KfrecError: the version of KServe has no canaries, or an argument is wrong.
    """
    numbers = re.match(r"v?(\d+)\.(\d+)", kserve)
    if not numbers:
        raise KfrecError(f"--kserve {kserve!r} is no version; give that of KServe in the cluster, such as 0.20")
    if tuple(map(int, numbers.groups())) < _CANARIES:
        raise KfrecError(
            f"--canary {percent}: KServe {kserve} has no canaries for plain Deployments and would send every request "
            "to one version without a word; upgrade to 0.20, or compare the challenger by kfrec feedback"
        )
    if not 1 <= percent <= 99:
        raise KfrecError(f"--canary {percent} is no share of the requests; give 1 to 99 percent")
    made = copy.deepcopy(dict(service))
    model, stable = (made["metadata"]["annotations"][f"kfrec.io/{name}"] for name in ("model", "version"))
    if version == stable:
        raise KfrecError(f"--canary {percent}: the canary is {model} version {version}, too; name another version")
    predictor = copy.deepcopy(made["spec"]["predictor"])
    (container,) = predictor["containers"]
    container["args"][0] = f"{model}/{version}"
    if any(argument.startswith("--log=") for argument in container["args"]):
        container["args"].append("--variant=canary")
    # Its Deployment is named by its version, so that promoting it later restarts no pod.
    made["spec"]["canary"] = [{"trafficPercent": percent, "predictor": {"name": f"v{version}", **predictor}}]
    return made


def _user() -> dict[str, Any]:
    """The part of a pod's securityContext that a container has, too."""
    return {name: value for name, value in pod_security().items() if name != "fsGroup"}


def rendered(service: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(service), sort_keys=False, width=120)
