"""A KServe InferenceService that serves one version of a registered model with ``kfrec serve``.

The manifest pins the version, so that all replicas serve the same one; apply a new manifest to serve a new champion.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from components.cluster.template import container_security, own_labels, pod_security
from components.errors import KfrecError
from components.images import step_image

PORT = 8080
# A Deployment: scaling to zero is no use to a server that loads TensorFlow first, and Knative allows less of a pod.
_MODE = {"serving.kserve.io/deploymentMode": "RawDeployment"}
_NAME = r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?"


def inference_service(model: str, version: str, name: str = "kfrec", registry: str = "") -> dict[str, Any]:
    """The InferenceService object.

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
        "args": [f"{model}/{version}", "--host=0.0.0.0", f"--port={PORT}"],
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
    }
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


def _user() -> dict[str, Any]:
    """The part of a pod's securityContext that a container has, too."""
    return {name: value for name, value in pod_security().items() if name != "fsGroup"}


def rendered(model: str, version: str, name: str = "kfrec", registry: str = "") -> str:
    """``inference_service`` as YAML."""
    return yaml.safe_dump(inference_service(model, version, name, registry), sort_keys=False, width=120)
