"""What an overlay must have to work on the cluster it is for."""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest
import yaml

from components.storage.s3 import KFP_STORE
from pipelines.cli import parser
from pipelines.serving import inference_service
from tests.manifests.pods import pod_templates
from tests.manifests.test_manifests import MANIFESTS, OVERLAYS, build

Json = dict[str, Any]
ALL = (*OVERLAYS, "plain")

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")


def objects(overlay: str) -> dict[tuple[str, str], Json]:
    return {(body["kind"], body["metadata"]["name"]): body for body in build(MANIFESTS / "overlays" / overlay)}


def callers(overlay: str) -> dict[str, Json]:
    """The pods that call KFP's API: of the schedules, and doctor's."""
    return {
        name: body["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        for (kind, name), body in objects(overlay).items()
        if kind == "CronJob"
    }


def test_in_kubeflow_the_api_is_asked_itself_and_with_a_token_for_it() -> None:
    """Its network policy lets namespaces of profiles reach ml-pipeline, and only the gateway ml-pipeline-ui."""
    assert (
        objects("kubeflow")["ConfigMap", "kfrec-config"]["data"]["KFP_ENDPOINT"] == "http://ml-pipeline.kubeflow:8888"
    )
    pods = callers("kubeflow")
    assert set(pods) == {"kfrec-lists", "kfrec-nightly", "kfrec-weekly", "kfrec-doctor"}
    for pod in pods.values():
        (container,) = pod["containers"]
        path = {entry["name"]: entry.get("value", "") for entry in container["env"]}["KF_PIPELINES_SA_TOKEN_PATH"]
        (volume,) = [v for v in pod["volumes"] for m in container["volumeMounts"]
                     if m["name"] == v["name"] and path == f"{m['mountPath']}/token"]  # fmt: skip
        (source,) = volume["projected"]["sources"]
        assert source["serviceAccountToken"]["audience"] == "pipelines.kubeflow.org"
        assert container["args"][-1] == "--namespace=$(NAMESPACE)"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_doctor_has_a_pod_with_the_account_of_the_steps(overlay: str) -> None:
    there = objects(overlay)
    assert there["CronJob", "kfrec-doctor"]["spec"]["suspend"] is True
    pod = callers(overlay)["kfrec-doctor"]
    assert pod["serviceAccountName"] == "kfrec-pipeline" and pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    options = parser().parse_args(container["args"])
    assert container["args"][0] == "doctor" and options.cluster


def test_anyone_may_ask_a_server_of_a_model() -> None:
    """Whose pods have the labels of the InferenceService; kfrec-closed would keep everyone out."""
    labels = inference_service("kfrec-ctr", "1")["metadata"]["labels"].items()
    policies = [body["spec"] for (kind, _), body in objects("standalone").items() if kind == "NetworkPolicy"]
    rules = [
        rule for spec in policies if spec["podSelector"]["matchLabels"].items() <= labels
        for rule in spec.get("ingress", ())
    ]  # fmt: skip
    assert rules == [{}]


def test_steps_without_a_sidecar_may_speak_to_mlflow_in_the_mesh() -> None:
    """KFP starts steps without one; rules on namespaces and principals match mutual TLS only."""
    policy = objects("kubeflow")["AuthorizationPolicy", "kfrec-mlflow"]
    assert policy["spec"]["rules"] == [{"to": [{"operation": {"ports": ["5000"]}}]}]


def test_the_migration_reaches_the_database_before_the_sidecar_runs() -> None:
    there = objects("kubeflow")
    (port,) = there["Service", "kfrec-postgres"]["spec"]["ports"]
    annotations = there["Deployment", "kfrec-mlflow"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["traffic.sidecar.istio.io/excludeOutboundPorts"] == str(port["port"])
    database = there["StatefulSet", "kfrec-postgres"]["spec"]["template"]["metadata"]["labels"]
    assert database["sidecar.istio.io/inject"] == "false", "it would not let in what passes by the mesh"


def test_a_schedule_may_start_runs_as_the_steps_account_and_as_no_other() -> None:
    granted = {
        (group, resource, *rule.get("resourceNames", ())): set(rule["verbs"])
        for rule in objects("kubeflow")["Role", "kfrec-schedule"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    kfp = "pipelines.kubeflow.org"
    assert granted == {
        (kfp, "pipelines"): {"get", "list", "create"},
        (kfp, "pipelines/versions"): {"get", "list", "create"},
        (kfp, "experiments"): {"get", "list", "create"},
        (kfp, "runs"): {"list", "create"},
        ("", "serviceaccounts", "kfrec-pipeline"): {"use"},
    }


@pytest.mark.parametrize("overlay", sorted(set(OVERLAYS) - {"kubeflow"}))
def test_without_users_a_schedule_has_no_rights(overlay: str) -> None:
    there = objects(overlay)
    bound = [
        subject["name"] for (kind, _), body in there.items() if kind == "RoleBinding" for subject in body["subjects"]
    ]
    assert "kfrec-schedule" not in bound
    assert there["ServiceAccount", "kfrec-schedule"]["automountServiceAccountToken"] is False


def test_artifacts_go_to_gcs_where_workers_have_no_other_key() -> None:
    there = objects("gke")
    root = there["ConfigMap", "kfp-launcher"]["data"]["defaultPipelineRoot"]
    assert root.startswith("gs://BUCKET/") and "AWS" not in there["ConfigMap", "kfrec-mpijob"]["data"]["mpijob.yaml"]
    for account in ("kfrec-pipeline", "kfrec-worker", "kfrec-mlflow"):
        annotations = there["ServiceAccount", account]["metadata"]["annotations"]
        assert annotations == {"iam.gke.io/gcp-service-account": f"{account}@PROJECT.iam.gserviceaccount.com"}


def test_artifacts_go_to_s3_as_a_role_and_without_a_key() -> None:
    there = objects("eks")
    launcher, config = (there["ConfigMap", name]["data"] for name in ("kfp-launcher", "kfrec-config"))
    assert launcher["defaultPipelineRoot"].startswith("s3://BUCKET/")
    assert config["MLFLOW_ARTIFACTS_DESTINATION"].startswith("s3://BUCKET/") and "AWS_ENDPOINT_URL" not in config
    default = yaml.safe_load(launcher["providers"])["s3"]["default"]
    assert default["credentials"] == {"fromEnv": True} and default["region"] in default["endpoint"]
    assert config["AWS_DEFAULT_REGION"] == default["region"]
    job = yaml.safe_load(there["ConfigMap", "kfrec-mpijob"]["data"]["mpijob.yaml"])
    assert "secret_environment" not in job and job["config_environment"] == {"kfrec-config": ["AWS_DEFAULT_REGION"]}
    # sshd gives the ranks none of what EKS puts into their pods.
    assert set(job["forwarded"]) == {"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"}
    for account in ("kfrec-pipeline", "kfrec-worker", "kfrec-mlflow"):
        annotations = there["ServiceAccount", account]["metadata"]["annotations"]
        assert annotations == {"eks.amazonaws.com/role-arn": f"arn:aws:iam::ACCOUNT:role/{account}"}
    assert "annotations" not in there["ServiceAccount", "kfrec-schedule"]["metadata"]


def test_steps_server_and_workers_find_the_store_that_one_line_of_the_overlay_names() -> None:
    """Which depends on the version of KFP: the comment above the line has the other address."""
    text = (MANIFESTS / "overlays/standalone/kustomization.yaml").read_text()
    assert text.count(f"AWS_ENDPOINT_URL={KFP_STORE}\n") == 1 and "http://minio-service.kubeflow:9000" in text
    there = objects("standalone")
    job = yaml.safe_load(there["ConfigMap", "kfrec-mpijob"]["data"]["mpijob.yaml"])
    assert there["ConfigMap", "kfrec-config"]["data"]["AWS_ENDPOINT_URL"] == KFP_STORE
    # One place has the address; the job's pods refer to it.
    assert "AWS_ENDPOINT_URL" in job["config_environment"]["kfrec-config"]
    assert "AWS_ENDPOINT_URL" not in str({name: value for name, value in job.items() if name != "config_environment"})


def test_a_users_namespace_writes_only_where_its_key_reaches() -> None:
    there = objects("kubeflow")
    (space,) = {body["metadata"]["namespace"] for body in there.values()}
    allowed = ("artifacts/", f"private-artifacts/{space}/", f"private/{space}/", "shared/")
    texts = [text for (kind, _), body in there.items() if kind == "ConfigMap" for text in body["data"].values()]
    keys = [key for text in texts for key in re.findall(r"(?:s3|minio)://mlpipeline/(\S*)", text)]
    assert len(keys) == 2 and all(key.startswith(allowed) for key in keys), keys


def test_a_pipeline_root_in_s3_has_the_key_of_the_steps() -> None:
    """As KFP's launcher reads its config map."""
    providers = yaml.safe_load((MANIFESTS / "components/launcher-s3/providers.yaml").read_text())
    default = providers["s3"]["default"]
    assert set(default) == {"endpoint", "region", "disableSSL", "forcePathStyle", "credentials"}
    assert "://" not in default["endpoint"]
    job = yaml.safe_load((MANIFESTS / "base/mpijob.yaml").read_text())
    secret, names = next(iter(job["secret_environment"].items()))
    reference = default["credentials"]["secretRef"]
    assert reference["secretName"] == secret
    assert [reference["accessKeyKey"], reference["secretKeyKey"]] == names[:2]


@pytest.mark.parametrize("overlay", ALL)
def test_no_old_server_runs_beside_a_migrated_schema(overlay: str) -> None:
    server = objects(overlay)["Deployment", "kfrec-mlflow"]["spec"]
    assert (server["replicas"], server["strategy"]["type"]) == (1, "Recreate")


@pytest.mark.parametrize("overlay", ALL)
def test_policies_let_in_pods_that_exist(overlay: str) -> None:
    there = objects(overlay).values()
    labels = [template["metadata"]["labels"] for body in there for template in pod_templates(body)]
    labels.append({"app.kubernetes.io/part-of": "kfrec", "app.kubernetes.io/component": "mpijob"})
    for body in there:
        for rule in body["spec"].get("ingress", ()) if body["kind"] == "NetworkPolicy" else ():
            for peer in rule.get("from", ()):
                wanted = peer["podSelector"]["matchLabels"].items()
                assert any(wanted <= found.items() for found in labels), body["metadata"]["name"]


def test_a_namespace_of_our_own_refuses_pods_that_are_not_restricted() -> None:
    there = objects("plain")
    assert there["Namespace", "kfrec"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert {body["metadata"].get("namespace", "kfrec") for body in there.values()} == {"kfrec"}
    assert {body["metadata"]["namespace"] for body in build(MANIFESTS / "jobs")} == {"kfrec"}


def test_without_kfp_nothing_waits_for_it() -> None:
    assert {kind for kind, _ in objects("plain")}.isdisjoint({"CronJob", "Role", "RoleBinding"})


def test_without_a_bucket_the_server_keeps_artifacts_on_its_disk() -> None:
    there = objects("plain")
    folder = there["ConfigMap", "kfrec-config"]["data"]["MLFLOW_ARTIFACTS_DESTINATION"]
    pod = there["Deployment", "kfrec-mlflow"]["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == mounts[folder]]
    assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in there


def test_the_download_of_plain_kubectl_may_read_a_bucket() -> None:
    (job,) = [body for body in build(MANIFESTS / "jobs") if body["metadata"]["name"] == "kfrec-prepare"]
    (download,) = [c for c in job["spec"]["template"]["spec"]["initContainers"] if c["name"] == "download"]
    assert {"secretRef": {"name": "kfrec-object-store", "optional": True}} in download["envFrom"]


PAGE = (MANIFESTS.parent / "docs/install-on-a-cluster.md").read_text()


def test_the_page_gives_the_accounts_of_kfp_and_kfrec_an_identity_in_google_cloud() -> None:
    loops = re.findall(r"for account in ([^;]*); do\n\s+gcloud", PAGE)
    (annotated,) = re.findall(r"annotate serviceaccount ([^\\]*)", PAGE)
    own = {name for (kind, name), body in objects("gke").items()
           if kind == "ServiceAccount" and "annotations" in body["metadata"]}  # fmt: skip
    assert [set(loop.split()) for loop in loops] == [own, set(annotated.split())] and "ml-pipeline-ui" in annotated


def test_the_page_makes_a_repository_for_every_image() -> None:
    (loop,) = re.findall(r"for image in ([^;]*); do\n\s+aws ecr create-repository", PAGE)
    images = yaml.safe_load((MANIFESTS.parent / "images/images.yaml").read_text())
    assert set(loop.split()) == {f"kfrec-{name}" for name in images}
