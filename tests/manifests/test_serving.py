"""The InferenceService that kfrec writes."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest

from components.errors import KfrecError
from pipelines.serving import inference_service, rendered, with_canary
from tests.manifests.pods import violations

CHECKED_IN = Path(__file__).parents[2] / "manifests" / "serving" / "inferenceservice.yaml"
# Fields of a KServe component (v1beta1) that are not a pod's.
OF_KSERVE = {"minReplicas"}


def test_the_checked_in_manifest_is_what_the_command_writes() -> None:
    body = "".join(line for line in CHECKED_IN.open() if not line.startswith("#"))
    assert body == rendered(inference_service("kfrec-ctr", "1"))


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


def test_a_canary_is_another_version_beside_the_same_service() -> None:
    stable = inference_service("kfrec-ctr", "3", "ads")
    made = with_canary(stable, "4", 10, "v0.20.1")
    (canary,) = made["spec"].pop("canary")
    assert made == stable
    predictor = stable["spec"]["predictor"]
    own = {**predictor["containers"][0], "args": ["kfrec-ctr/4", "--host=0.0.0.0", "--port=8080"]}
    assert canary == {"trafficPercent": 10, "predictor": {"name": "v4", **predictor, "containers": [own]}}


@pytest.mark.parametrize(
    ("version", "percent", "kserve", "said"),
    [
        ("4", 10, "0.19.2", "--canary 10: KServe 0.19.2 has no canaries for plain Deployments"),
        ("4", 10, "", "--kserve '' is no version; give that of KServe in the cluster"),
        ("4", 100, "0.20", "--canary 100 is no share of the requests; give 1 to 99 percent"),
        ("3", 10, "0.20", "--canary 10: the canary is kfrec-ctr version 3, too; name another version"),
    ],
)
def test_a_canary_that_kserve_would_ignore_is_refused(version: str, percent: int, kserve: str, said: str) -> None:
    with pytest.raises(KfrecError, match=said):
        with_canary(inference_service("kfrec-ctr", "3"), version, percent, kserve)
