import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from components.cluster.pods import Owner
from components.errors import KfrecError
from components.images import VERSION
from components.settings_file import load_settings_file
from components.steps.catalog import LaunchParameters
from components.train.jobs.attempts import training_name
from components.train.mpijob.job import mpijob
from components.train.mpijob.settings import JobSettings

IMAGE = f"kfrec-train:{VERSION}"
POD_SECURITY = {
    "runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
LABELS = {
    "app.kubernetes.io/name": "kfrec",
    "app.kubernetes.io/part-of": "kfrec",
    "app.kubernetes.io/component": "mpijob",
}
ENVIRONMENT = [
    {"name": "KFREC_EVENTS", "value": "1"},
    {"name": "PYTHONUNBUFFERED", "value": "1"},
    {"name": "TF_CPP_MIN_LOG_LEVEL", "value": "2"},
    {"name": "HOME", "value": "/tmp"},
]
WAIT = ["python", "-m", "components.train.mpijob.await_workers", "--port=2222", "--seconds=3600"]
MPIRUN = ["mpirun", "-np", "4", "--bind-to", "none", "--tag-output", "-x", "PATH", "-x", "LD_LIBRARY_PATH",
          "-x", "PYTHONPATH", "-x", "KFREC_EVENTS", "-x", "PYTHONUNBUFFERED", "-x", "TF_CPP_MIN_LOG_LEVEL",
          "-x", "HOME"]  # fmt: skip
ARGUMENTS = ["--dataset_dir=gs://b/d", "--results_dir=gs://b/m"]


def pod_template(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod with what launcher and workers have in common, and what is its own."""
    common = {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "securityContext": SECURITY, "env": ENVIRONMENT}
    return {
        "metadata": {"labels": LABELS, "annotations": {"sidecar.istio.io/inject": "false"}},
        "spec": {
            "serviceAccountName": "kfrec-worker",
            "automountServiceAccountToken": False,
            "securityContext": POD_SECURITY,
            "containers": [common | container],
            **spec,
        },
    }


def test_the_whole_job_of_four_ranks_on_two_nodes() -> None:
    parameters = LaunchParameters(workers=4, workers_per_pod=2, deadline=3600, restarts=1)
    job = mpijob("j", 1, "ns", parameters, JobSettings(), ARGUMENTS, Owner("run-1", "u-1"))
    digest = job["metadata"]["annotations"].pop("kfrec.io/spec-digest")
    assert len(digest) == 16
    assert job == {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {
            "name": "j-1",
            "namespace": "ns",
            "labels": {**LABELS, "kfrec.io/training": "j", "kfrec.io/attempt": "1"},
            "annotations": {},
            "ownerReferences": [
                {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "run-1", "uid": "u-1"}
            ],
        },
        "spec": {
            "slotsPerWorker": 2,
            "runPolicy": {
                "cleanPodPolicy": "Running",
                "backoffLimit": 0,
                "activeDeadlineSeconds": 3600,
                "ttlSecondsAfterFinished": 86400,
                "schedulingPolicy": {"minAvailable": 2},
            },
            "sshAuthMountPath": "/home/mpiuser/.ssh",
            "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiImplementation": "OpenMPI",
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "restartPolicy": "Never",
                    "template": pod_template(
                        {
                            "name": "launcher",
                            "command": [*WAIT, *MPIRUN, "python", "-m", "components.train.worker", *ARGUMENTS],
                            "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
                            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                        },
                        volumes=[{"name": "tmp", "emptyDir": {}}],
                    ),
                },
                "Worker": {
                    "replicas": 2,
                    "restartPolicy": "Never",
                    "template": pod_template(
                        {
                            "name": "worker",
                            "command": ["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"],
                            "readinessProbe": {"tcpSocket": {"port": 2222}, "periodSeconds": 2, "timeoutSeconds": 2},
                            "resources": {
                                "requests": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"},
                                "limits": {"memory": "32Gi", "nvidia.com/gpu": "2"},
                            },
                            "volumeMounts": [
                                {"name": "shared-memory", "mountPath": "/dev/shm"},
                                {"name": "stage", "mountPath": "/stage"},
                                {"name": "tmp", "mountPath": "/tmp"},
                            ],
                        },
                        volumes=[
                            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
                            {"name": "stage", "emptyDir": {"sizeLimit": "200Gi"}},
                            {"name": "tmp", "emptyDir": {}},
                        ],
                        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    ),
                },
            },
        },
    }


def everything(tmp_path: Path) -> JobSettings:
    file = tmp_path / "mpijob.yaml"
    file.write_text(
        """
image: registry.example.org/kfrec-train:1
image_pull_secrets: [pull]
node_selector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}
tolerations: [{key: team, operator: Equal, value: ads, effect: NoSchedule}]
affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
launcher_node_selector: {kubernetes.io/arch: amd64}
launcher_tolerations: [{key: team, operator: Exists}]
resources: {vpc.amazonaws.com/efa: 4, rdma/hca: "1", hugepages-2Mi: 5120Mi, ephemeral-storage: 300Gi}
capabilities: [IPC_LOCK]
volumes:
  - name: stage
    ephemeral:
      volumeClaimTemplate:
        spec: {accessModes: [ReadWriteOnce], storageClassName: local-ssd, resources: {requests: {storage: 1Ti}}}
  - {name: infiniband, hostPath: {path: /dev/infiniband}}
volume_mounts: [{name: infiniband, mountPath: /dev/infiniband}]
priority_class: batch
queue: gpus
scheduler: volcano
scheduling_policy: {minAvailable: 3, queue: gpus, scheduleTimeoutSeconds: 600}
environment: {NCCL_DEBUG: WARN}
forwarded: [AWS_ROLE_ARN]
config_environment: {kfrec-config: [AWS_ENDPOINT_URL]}
secret_environment: {kfrec-object-store: [AWS_ACCESS_KEY_ID]}
labels: {team: ads}
annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}
"""
    )
    return load_settings_file(file, JobSettings)


def test_what_a_cluster_sets_reaches_the_pods(tmp_path: Path) -> None:
    job = mpijob("j", 1, "ns", LaunchParameters(), everything(tmp_path), ARGUMENTS)
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    # The launcher is made after the workers: a gang that counts it waits for ever.
    policy = {"minAvailable": 1, "queue": "gpus", "scheduleTimeoutSeconds": 600}
    assert job["spec"]["runPolicy"]["schedulingPolicy"] == policy
    templates = {kind: replica["template"] for kind, replica in job["spec"]["mpiReplicaSpecs"].items()}
    for template in templates.values():
        spec = template["spec"]
        assert template["metadata"]["labels"]["team"] == "ads"
        assert template["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
        assert (spec["schedulerName"], spec["priorityClassName"]) == ("volcano", "batch")
        assert spec["imagePullSecrets"] == [{"name": "pull"}]
        (container,) = spec["containers"]
        assert container["image"] == "registry.example.org/kfrec-train:1"
        assert {"name": "NCCL_DEBUG", "value": "WARN"} in container["env"]
        address = {"name": "kfrec-config", "key": "AWS_ENDPOINT_URL", "optional": True}
        assert {"name": "AWS_ENDPOINT_URL", "valueFrom": {"configMapKeyRef": address}} in container["env"]
        key = {"name": "kfrec-object-store", "key": "AWS_ACCESS_KEY_ID", "optional": True}
        assert {"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": key}} in container["env"]
    assert templates["Launcher"]["spec"]["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert templates["Launcher"]["spec"]["tolerations"] == [{"key": "team", "operator": "Exists"}]
    assert templates["Worker"]["spec"]["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}
    assert [t["key"] for t in templates["Worker"]["spec"]["tolerations"]] == ["team", "nvidia.com/gpu"]
    command = templates["Launcher"]["spec"]["containers"][0]["command"]
    exported = {command[i + 1] for i, word in enumerate(command) if word == "-x"}
    assert {"NCCL_DEBUG", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN"} <= exported


def test_workers_get_devices_for_rdma_and_the_launcher_none(tmp_path: Path) -> None:
    job = mpijob("j", 1, "ns", LaunchParameters(), everything(tmp_path), ARGUMENTS)
    specs = {kind: replica["template"]["spec"] for kind, replica in job["spec"]["mpiReplicaSpecs"].items()}
    (launcher,), (worker,) = (specs[kind]["containers"] for kind in ("Launcher", "Worker"))
    asked = {"vpc.amazonaws.com/efa": "4", "rdma/hca": "1", "hugepages-2Mi": "5120Mi", "ephemeral-storage": "300Gi"}
    for kind in ("requests", "limits"):
        assert asked.items() <= worker["resources"][kind].items()
        assert asked.keys().isdisjoint(launcher["resources"][kind])
    assert worker["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert launcher["securityContext"] == SECURITY
    volumes = {volume["name"]: volume for volume in specs["Worker"]["volumes"]}
    assert list(volumes) == ["shared-memory", "stage", "tmp", "infiniband"]
    claim = volumes["stage"]["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert claim["storageClassName"] == "local-ssd" and "emptyDir" not in volumes["stage"]
    mounts = {mount["mountPath"]: mount["name"] for mount in worker["volumeMounts"]}
    assert mounts == {
        "/dev/shm": "shared-memory", "/stage": "stage", "/tmp": "tmp", "/dev/infiniband": "infiniband",
    }  # fmt: skip
    assert [volume["name"] for volume in specs["Launcher"]["volumes"]] == ["tmp"]


def test_a_cluster_without_gpus_asks_for_none() -> None:
    job = mpijob("j", 1, "ns", LaunchParameters(gpus_per_worker=0), JobSettings(), ARGUMENTS)
    spec = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert "tolerations" not in spec
    assert spec["containers"][0]["resources"]["limits"] == {"memory": "32Gi"}


@pytest.mark.slow
@pytest.mark.parametrize("queued", [False, True])
def test_the_job_validates_against_the_crd(tmp_path: Path, queued: bool) -> None:
    if "KFREC_SCHEMAS" not in os.environ:
        pytest.skip("KFREC_SCHEMAS does not name the folder of CRDs")
    crd = yaml.load((Path(os.environ["KFREC_SCHEMAS"]) / "kubeflow.org_mpijobs.yaml").read_text(), yaml.CSafeLoader)
    (version,) = [version for version in crd["spec"]["versions"] if version["name"] == "v2beta1"]
    schema = _strict(version["schema"]["openAPIV3Schema"])
    settings = everything(tmp_path) if queued else JobSettings()
    job = mpijob("j", 1, "ns", LaunchParameters(workers=4, workers_per_pod=2), settings, ARGUMENTS)
    jsonschema.validate(job, schema)
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containres"] = []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(job, schema)


def _strict(schema: dict) -> dict:
    """The schema with unknown fields refused, as the API server does under strict field validation."""
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema = {**schema, "properties": {n: _strict(s) for n, s in schema["properties"].items()}}
        if schema["properties"].get("metadata") != {"type": "object"} or len(schema["properties"]) > 1:
            schema["additionalProperties"] = False
    if isinstance(schema.get("items"), dict):
        schema = {**schema, "items": _strict(schema["items"])}
    if isinstance(schema.get("additionalProperties"), dict):
        schema = {**schema, "additionalProperties": _strict(schema["additionalProperties"])}
    return schema


def test_names_of_pods_fit_a_host_name() -> None:
    name = training_name("a-run-id", "gs://bucket/a/very/long/path")
    assert (
        name == training_name("a-run-id", "gs://bucket/a/very/long/path") != training_name("another", "gs://bucket/x")
    )
    mpijob(name, 1, "ns", LaunchParameters(workers=1000), JobSettings(), ARGUMENTS)
    with pytest.raises(KfrecError, match="longer than the 63 characters"):
        mpijob("x" * 60, 1, "ns", LaunchParameters(), JobSettings(), ARGUMENTS)


def test_another_specification_has_another_digest() -> None:
    digests = {
        mpijob("j", 1, "ns", LaunchParameters(workers=n), JobSettings(), ARGUMENTS)["metadata"]["annotations"][
            "kfrec.io/spec-digest"
        ]
        for n in (1, 2)
    }
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("imge: x", "unknown parameter imge: did you mean image?"),
        ("tolerations: {key: x}", "is not a list"),
        ("tolerations: [{kee: x}]", "tolerations: entry 1: unknown parameter kee"),
        ("launcher_tolerations: [{effect: NoSchedul}]", "entry 1: effect: 'NoSchedul' must be one of NoSchedule"),
        ("affinity: {podAntiAfinity: {}}", "affinity: unknown parameter podAntiAfinity"),
        ("ttl_seconds_after_finished: soon", "is not a whole number"),
        ("- image", "is not a mapping"),
        ("resources: {rdma/hca: one}", "resources: rdma/hca: 'one' is not a Kubernetes quantity"),
        ("resources: {memory: 1Gi}", "resources: memory is a parameter of the train step"),
        ("volumes: [{emptyDir: {}}]", "volumes: entry 1: has no name; add it"),
        ("volume_mounts: [{name: data, mountPath: /data}]", "volume_mounts: data is none of the volumes"),
        ("volume_mounts: [{name: tmp, mountPath: /stage/}]", "volume_mounts: /stage is mounted twice"),
    ],
)
def test_a_mistake_in_the_settings_is_one_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "mpijob.yaml"
    file.write_text(text)
    with pytest.raises(KfrecError) as error:
        load_settings_file(file, JobSettings)
    assert str(file) in str(error.value) and told in str(error.value) and "\n" not in str(error.value)


def test_another_part_of_the_installation_adds_its_settings(tmp_path: Path) -> None:
    (tmp_path / "mpijob.yaml").write_text("image: x\nqueue: a\n")
    (tmp_path / "mpijob.kueue.yaml").write_text("queue: b\n")
    (tmp_path / "schedules.yaml").write_text("none: of these\n")
    assert load_settings_file(tmp_path / "mpijob.yaml", JobSettings) == JobSettings(image="x", queue="b")
    (tmp_path / "mpijob.kueue.yaml").write_text("queu: b\n")
    with pytest.raises(KfrecError, match=r"mpijob\.kueue\.yaml: unknown parameter queu: did you mean queue"):
        load_settings_file(tmp_path / "mpijob.yaml", JobSettings)


def test_settings_that_do_not_exist_set_nothing(tmp_path: Path) -> None:
    assert load_settings_file(tmp_path / "none.yaml", JobSettings) == JobSettings()
