"""What `kubectl apply -k` would send: it builds, validates, is restricted, and refers only to what is there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from components.cluster.api import RIGHTS
from components.cluster.template import own_labels
from components.images import VERSION
from components.settings_file import load_settings_file
from components.steps.catalog import STEPS, LaunchParameters
from components.steps.command import argument_parser
from components.train.mpijob.job import mpijob
from components.train.mpijob.settings import JobSettings
from pipelines.task_settings import load_settings
from tests.manifests.pods import containers, pod_templates, violations

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
OVERLAYS = ("standalone", "kubeflow", "gke", "eks")  # with KFP
# plain is for a cluster without KFP; the jobs run in its namespace.
BUILDS = (*(f"overlays/{name}" for name in OVERLAYS), "overlays/plain", "jobs", "benchmark")
OLDEST, NEWEST = "1.29.0", "1.34.0"
# Kinds whose CRDs are not at hand: their group, version and the fields they must have are checked instead.
FOREIGN = {
    ("security.istio.io/v1", "AuthorizationPolicy"): ("selector", "action", "rules"),
    ("kueue.x-k8s.io/v1beta2", "LocalQueue"): ("clusterQueue",),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"): ("namespaceSelector", "resourceGroups"),
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"): (),
}
# What others install (KFP, Kubeflow), or the user makes: manifests/create-secrets.sh and docs/install-on-a-cluster.md.
MADE_BY_OTHERS = {
    ("Role", "pipeline-runner"), ("ClusterRole", "kubeflow-edit"), ("Secret", "kfrec-mlflow-server"),
    ("Secret", "kfrec-mlflow"), ("Secret", "kfrec-object-store"),
}  # fmt: skip

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")


def build(folder: Path | str) -> list[Json]:
    return [body for body in yaml.load_all(_built(Path(folder)), yaml.CSafeLoader) if body]


@cache
def _built(folder: Path) -> str:
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=BUILDS)
def objects(request: pytest.FixtureRequest) -> list[Json]:
    return build(MANIFESTS / request.param)


@pytest.mark.slow
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_object_validates_strictly(objects: list[Json], version: str) -> None:
    builtin = [
        body for body in objects if (body["apiVersion"], body["kind"]) not in FOREIGN and body["kind"] != "MPIJob"
    ]
    assert builtin
    for body in builtin:
        kubernetes_validate.validate(body, version, strict=True)
    for body in objects:
        if wanted := FOREIGN.get((body["apiVersion"], body["kind"])):
            assert set(body["spec"]) == set(wanted)


def test_a_field_that_does_not_exist_is_found() -> None:
    body = next(body for body in build(MANIFESTS / "overlays/standalone") if body["kind"] == "Deployment")
    body["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(body, NEWEST, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["jobs", "benchmark"])
def test_the_mpijob_of_plain_kubectl_validates_against_its_crd(folder: str) -> None:
    if "KFREC_SCHEMAS" not in os.environ:
        pytest.skip("KFREC_SCHEMAS does not name the folder of CRDs")
    crd = yaml.load((Path(os.environ["KFREC_SCHEMAS"]) / "kubeflow.org_mpijobs.yaml").read_text(), yaml.CSafeLoader)
    (job,) = [body for body in build(MANIFESTS / folder) if body["kind"] == "MPIJob"]
    jsonschema.validate(job, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def test_the_benchmark_is_the_mpijob_of_the_training_with_a_script_of_the_image() -> None:
    bodies = build(MANIFESTS / "benchmark")
    assert [body["kind"] for body in bodies] == ["PersistentVolumeClaim", "MPIJob"]
    launcher = bodies[1]["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    script = launcher["command"][launcher["command"].index("bash") + 1]
    assert (ROOT / script.removeprefix("/opt/kfrec/")).is_file()


def test_every_pod_is_restricted_and_limited(objects: list[Json]) -> None:
    for body in objects:
        for template in pod_templates(body):
            name = f"{body['kind']} {body['metadata']['name']}"
            assert violations(template["spec"]) == [], name
            # Of the pods that the manifests define, only doctor asks the Kubernetes API.
            assert template["spec"]["automountServiceAccountToken"] is (name == "CronJob kfrec-doctor"), name
            for container in containers(template["spec"]):
                resources = container["resources"]
                assert {"cpu", "memory"} <= set(resources["requests"]) and "memory" in resources["limits"], name
                assert ":" in container["image"] and not container["image"].endswith(":latest"), name
                if container.get("ports"):
                    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container), name


def test_what_is_referred_to_is_there_or_made_by_the_user(objects: list[Json]) -> None:
    there = {(body["kind"], body["metadata"]["name"]) for body in objects}
    if any(body["kind"] == "MPIJob" for body in objects):  # beside an installation
        there |= {(body["kind"], body["metadata"]["name"]) for body in build(MANIFESTS / "overlays/plain")}
    assert set(references(objects)) - there - MADE_BY_OTHERS == set()


def references(objects: list[Json]) -> Iterator[tuple[str, str]]:
    for body in objects:
        if body["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            yield body["roleRef"]["kind"], body["roleRef"]["name"]
            yield from (("ServiceAccount", subject["name"]) for subject in body["subjects"])
        for template in pod_templates(body):
            spec = template["spec"]
            yield "ServiceAccount", spec["serviceAccountName"]
            for volume in spec.get("volumes", ()):
                if "configMap" in volume:
                    yield "ConfigMap", volume["configMap"]["name"]
                if "secret" in volume:
                    yield "Secret", volume["secret"]["secretName"]
                if "persistentVolumeClaim" in volume:
                    yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]
            for container in containers(spec):
                for source in container.get("envFrom", ()):
                    kind = "ConfigMap" if "configMapRef" in source else "Secret"
                    yield kind, next(iter(v["name"] for k, v in source.items() if k.endswith("Ref")))
                for entry in container.get("env", ()):
                    for key, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
                        if reference := entry.get("valueFrom", {}).get(key):
                            yield kind, reference["name"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_steps_have_exactly_the_rights_they_need(overlay: str) -> None:
    (role,) = [
        body
        for body in build(MANIFESTS / "overlays" / overlay)
        if body["kind"] == "Role" and body["metadata"]["name"] == "kfrec-mpijobs"
    ]
    granted = {
        (group, resource): rule["verbs"]
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {(right.group, right.resource): list(right.verbs) for right in RIGHTS}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_find_pods_and_policies_close_everything(overlay: str) -> None:
    objects = build(MANIFESTS / "overlays" / overlay)
    labels = [template["metadata"]["labels"] for body in objects for template in pod_templates(body)]
    # Made by the train step, and by KServe.
    labels += [own_labels("mpijob"), own_labels("serving")]
    for body in objects:
        if body["kind"] == "Service":
            assert any(body["spec"]["selector"].items() <= found.items() for found in labels), body["metadata"]["name"]
        if body["kind"] in ("Deployment", "StatefulSet"):
            wanted = body["spec"]["selector"]["matchLabels"]
            assert wanted.items() <= body["spec"]["template"]["metadata"]["labels"].items()
        if body["kind"] == "NetworkPolicy":
            wanted = body["spec"]["podSelector"]["matchLabels"]
            assert any(wanted.items() <= found.items() for found in labels), body["metadata"]["name"]
    closed = [b for b in objects if b["kind"] == "NetworkPolicy" and not b["spec"].get("ingress")]
    assert [body["metadata"]["name"] for body in closed] == ["kfrec-closed"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_settings_are_those_that_the_code_reads(overlay: str, tmp_path: Path) -> None:
    maps = {
        b["metadata"]["name"]: b["data"] for b in build(MANIFESTS / "overlays" / overlay) if b["kind"] == "ConfigMap"
    }
    (tmp_path / "mpijob.yaml").write_text(maps["kfrec-mpijob"]["mpijob.yaml"])
    settings = load_settings_file(tmp_path / "mpijob.yaml", JobSettings)
    assert settings.service_account == "kfrec-worker" and settings.image.endswith(f"/kfrec-train:{VERSION}")
    assert {"MLFLOW_TRACKING_URI", "KFP_ENDPOINT", "KFREC_REGISTRY", "KFREC_LOGS"} <= set(maps["kfrec-config"])


def test_the_jobs_of_plain_kubectl_call_steps_as_they_are() -> None:
    seen = set()
    for body in build(MANIFESTS / "jobs"):
        for template in pod_templates(body) if body["kind"] == "Job" else ():
            for container in containers(template["spec"]):
                module = container["command"][-1].removeprefix("components.")
                if module in STEPS:
                    argument_parser(STEPS[module], {}).parse_args(container["args"])
                    seen.add(module)
        if body["kind"] == "MPIJob":
            command = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
            argument_parser(STEPS["train"], {}).parse_args(command[command.index("components.train") + 1 :])
            seen.add("train")
    assert seen == set(STEPS) - {"find", "predict", "recommend", "feedback"}


@pytest.fixture
def beside(tmp_path: Path) -> Callable[..., list[Json]]:
    """What the base gives with some components, and with objects of one's own by file name."""

    def make(*chosen: str, **own: Json) -> list[Json]:
        copy = shutil.copytree(MANIFESTS, tmp_path / "manifests")
        folder = copy / "overlays" / "own"
        folder.mkdir()
        for name, body in own.items():
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(body))
        resources = ["../../base", *(f"{name}.yaml" for name in own)]
        overlay = {"resources": resources, "components": [f"../../components/{name}" for name in chosen]}
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        found = build(folder)
        for body in found:
            wanted = FOREIGN.get((body["apiVersion"], body["kind"]))
            if wanted is None:
                kubernetes_validate.validate(body, NEWEST, strict=True)
            else:
                assert set(body.get("spec", {})) == set(wanted)
        return found

    return make


@pytest.mark.parametrize(
    "chosen",
    [[], ["kueue"], ["dask"], ["doctor", "postgres", "kueue", "object-store", "pipeline-runner", "launcher-s3"]],
)
def test_components_combine_as_one_likes(chosen: list[str], beside: Callable[..., list[Json]]) -> None:
    kinds = {(body["kind"], body["metadata"]["name"]) for body in beside(*chosen)}
    assert (("StatefulSet", "kfrec-postgres") in kinds) == ("postgres" in chosen)
    assert (("LocalQueue", "kfrec") in kinds) == ("kueue" in chosen)
    assert (("ConfigMap", "kfp-launcher") in kinds) == ("launcher-s3" in chosen)
    assert (("NetworkPolicy", "kfrec-dask") in kinds) == ("dask" in chosen)


def test_a_dask_cluster_shares_a_volume_with_the_step_and_lets_in_no_other(beside: Callable[..., list[Json]]) -> None:
    found = {(body["kind"], body["metadata"]["name"]): body for body in beside("dask")}
    pods = {role: found["Deployment", f"kfrec-dask-{role}"]["spec"]["template"] for role in ("scheduler", "worker")}
    step = load_settings(MANIFESTS / "components/dask/task_settings.yaml").steps["preprocess"]
    ((claim, folder),) = step.claims.items()
    assert found["PersistentVolumeClaim", claim]["spec"]["accessModes"] == ["ReadWriteMany"]
    (worker,) = containers(pods["worker"]["spec"])
    (volume,) = [each for each in pods["worker"]["spec"]["volumes"] if "persistentVolumeClaim" in each]
    assert volume["persistentVolumeClaim"]["claimName"] == claim
    assert {"name": volume["name"], "mountPath": folder} in worker["volumeMounts"]
    has_gpu = any("gpu" in resource for resource in worker["resources"]["limits"])
    assert bool(step.gpus) == has_gpu, "a GPU for both or for none"
    service = found["Service", "kfrec-dask"]["spec"]
    assert f"tcp://kfrec-dask:{service['ports'][0]['port']}" in worker["command"]
    assert service["selector"].items() <= pods["scheduler"]["metadata"]["labels"].items()
    policy = found["NetworkPolicy", "kfrec-dask"]["spec"]
    peers = [peer["podSelector"]["matchLabels"] for peer in policy["ingress"][0]["from"]]
    assert load_settings().steps["preprocess"].labels in peers
    for template in pods.values():
        labels = template["metadata"]["labels"]
        assert violations(template["spec"]) == [] and template["spec"]["automountServiceAccountToken"] is False
        assert policy["podSelector"]["matchLabels"].items() <= labels.items()
        assert any(peer.items() <= labels.items() for peer in peers)


def test_a_private_registry_is_open_to_every_pod(beside: Callable[..., list[Json]]) -> None:
    found = beside("postgres", "schedules", "pull-secret")
    accounts = {b["metadata"]["name"]: b.get("imagePullSecrets") for b in found if b["kind"] == "ServiceAccount"}
    used = {template["spec"]["serviceAccountName"] for body in found for template in pod_templates(body)}
    # Steps and MPIJobs run as these two.
    assert used | {"kfrec-pipeline", "kfrec-worker"} == set(accounts)
    assert all(secrets == [{"name": "kfrec-pull"}] for secrets in accounts.values())


def test_servers_and_schedules_have_a_class_and_a_place(beside: Callable[..., list[Json]]) -> None:
    found = beside("postgres", "schedules", "placement")
    classes = {body["metadata"]["name"] for body in found if body["kind"] == "PriorityClass"}
    templates = [template["spec"] for body in found for template in pod_templates(body)]
    assert len(templates) == 5
    for spec in templates:
        assert spec["priorityClassName"] in classes and spec["nodeSelector"] == {"kubernetes.io/arch": "amd64"}


def test_with_the_component_kueue_every_mpijob_names_a_queue_that_can_admit_it(
    beside: Callable[..., list[Json]], tmp_path: Path
) -> None:
    found = {(body["kind"], body["metadata"]["name"]): body for body in beside("postgres", "kueue")}
    for name, content in found["ConfigMap", "kfrec-mpijob"]["data"].items():
        (tmp_path / name).write_text(content)
    settings = load_settings_file(tmp_path / "mpijob.yaml", JobSettings)
    assert settings.service_account == "kfrec-worker", "what the base sets stays"
    queue = found["LocalQueue", settings.queue]
    quota = found["ClusterQueue", queue["spec"]["clusterQueue"]]["spec"]
    (group,) = quota["resourceGroups"]
    (flavor,) = group["flavors"]
    assert ("ResourceFlavor", flavor["name"]) in found
    assert [resource["name"] for resource in flavor["resources"]] == group["coveredResources"]
    job = mpijob("j", 1, "ns", LaunchParameters(workers=4), settings, [])
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == settings.queue
    for template in pod_templates(job):
        for container in containers(template["spec"]):
            assert set(container["resources"]["requests"]) <= set(group["coveredResources"])


def test_pods_ask_for_room_on_the_disk_where_nothing_else_says_so(beside: Callable[..., list[Json]]) -> None:
    (limits,) = [body["spec"]["limits"] for body in beside("ephemeral-storage") if body["kind"] == "LimitRange"]
    # A limit would be the container's, on top of that of its volumes.
    assert limits == [{"type": "Container", "defaultRequest": {"ephemeral-storage": "10Gi"}}]


@pytest.mark.slow
def test_servers_have_an_account_each(beside: Callable[..., list[Json]]) -> None:
    """The MLflow server's may have a role in the cloud, which its database needs not."""
    servers = [body for body in beside("postgres") if body["kind"] in ("Deployment", "StatefulSet")]
    accounts = {body["metadata"]["name"]: body["spec"]["template"]["spec"]["serviceAccountName"] for body in servers}
    assert accounts == {"kfrec-mlflow": "kfrec-mlflow", "kfrec-postgres": "kfrec-postgres"}


def test_no_secret_is_in_the_manifests() -> None:
    assert all(body["kind"] != "Secret" for name in BUILDS for body in build(MANIFESTS / name))


def test_mlflow_answers_to_full_names_only(objects: list[Json]) -> None:
    """A pattern such as ``kfrec-mlflow.*`` matches hosts that somebody else may register."""
    for body in objects:
        for container in (each for template in pod_templates(body) for each in containers(template["spec"])):
            for word in container.get("args", []):
                if word.startswith("--allowed-hosts="):
                    hosts = word.removeprefix("--allowed-hosts=").split(",")
                    assert [host for host in hosts if "*" in host] == ["localhost:*"]
                    assert "kfrec-mlflow:5000" in hosts and "kfrec-mlflow.$(NAMESPACE).svc:5000" in hosts
                    assert "NAMESPACE" in {variable["name"] for variable in container["env"]}
