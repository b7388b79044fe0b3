"""The InferenceService that kfrec writes."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest

from pipelines.serving import inference_service, rendered
from tests.manifests.pods import violations

CHECKED_IN = Path(__file__).parents[2] / "manifests" / "serving" / "inferenceservice.yaml"
# Fields of a KServe component (v1beta1) that are not a pod's.
OF_KSERVE = {"minReplicas"}


def test_the_checked_in_manifest_is_what_the_command_writes() -> None:
    body = "".join(line for line in CHECKED_IN.open() if not line.startswith("#"))
    assert body == rendered("kfrec-ctr", "1")


@pytest.mark.parametrize("version", ["1.29.0", "1.34.0"])
def test_its_pod_validates_strictly_and_is_restricted(version: str) -> None:
    service = inference_service("kfrec-ctr", "1", registry="registry.example.org/team")
    assert (service["apiVersion"], service["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    pod = {name: value for name, value in service["spec"]["predictor"].items() if name not in OF_KSERVE}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kfrec"}, "spec": pod}
    kubernetes_validate.validate(body, version, strict=True)
    assert violations(pod) == []
    assert "securityContext" not in pod, "Knative refuses a pod with one"
    assert pod["containers"][0]["image"].startswith("registry.example.org/team/kfrec-cpu:")


def test_it_is_a_deployment_unless_one_says_otherwise() -> None:
    annotations = inference_service("kfrec-ctr", "1")["metadata"]["annotations"]
    assert annotations["serving.kserve.io/deploymentMode"] == "RawDeployment"
