"""The DaskCluster object, as the operator's controller reads it."""

from __future__ import annotations

import kubernetes_validate
import pytest

from components.cluster.owner import Owner
from components.preprocess.dask_cluster.body import dask_cluster
from components.preprocess.dask_settings import DaskSettings
from components.steps.images import VERSION
from tests.manifests.pods import violations

SETTINGS = DaskSettings(
    shared_folder="/shared",
    shared_volume={"persistentVolumeClaim": {"claimName": "kfrec-shared"}},
    image_pull_secrets=("pull",),
    node_selector={"pool": "gpu"},
    worker_gpus=1,
    environment={"A": "b"},
    labels={"kueue.x-k8s.io/queue-name": "q"},
)


def test_the_object_has_what_the_operator_needs() -> None:
    body = dask_cluster("kfrec-dask-x", "ns", 3, SETTINGS, Owner("run-1", "u-1"), pod="step-1")
    assert (body["apiVersion"], body["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    metadata, spec = body["metadata"], body["spec"]
    assert metadata["ownerReferences"][0]["kind"] == "Workflow"
    assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == "q"  # the operator puts them on every pod
    assert metadata["annotations"]["kfrec.io/pod"] == "step-1"
    assert spec["worker"]["replicas"] == 3
    service = spec["scheduler"]["service"]
    assert service["type"] == "ClusterIP"  # the controller reads it
    assert service["selector"] == {"dask.org/cluster-name": "kfrec-dask-x", "dask.org/component": "scheduler"}
    named = {port["name"]: port["containerPort"] for port in spec["scheduler"]["spec"]["containers"][0]["ports"]}
    assert {port["name"]: port["port"] for port in service["ports"]} == named
    assert named == {"tcp-comm": 8786, "http-dashboard": 8787}
    assert {port["targetPort"] for port in service["ports"]} == set(named)


@pytest.mark.parametrize("role", ["scheduler", "worker"])
def test_its_pods_are_valid_restricted_and_limited(role: str) -> None:
    pod = dask_cluster("kfrec-dask-x", "ns", 3, SETTINGS)["spec"][role]["spec"]
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod}, "1.34.0", strict=True
    )
    assert violations(pod) == [] and pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["image"] == f"kfrec-preprocess:{VERSION}"
    limits = container["resources"]["limits"]
    assert limits == {"memory": "4Gi"} if role == "scheduler" else {"memory": "16Gi", "nvidia.com/gpu": "1"}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/tmp", "/shared"}


def test_no_worker_has_a_name_that_a_scheduler_could_refuse() -> None:
    (worker,) = dask_cluster("x", "ns", 1, SETTINGS)["spec"]["worker"]["spec"]["containers"]
    assert not any(word.startswith("--name") for word in worker["command"])
