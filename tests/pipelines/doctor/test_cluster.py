"""``kfrec doctor --cluster`` where something is missing: the line that says so, and the exit status."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.doctor.cluster import checks
from tests.fakes.mlflow_server import MlflowServer, mlflow_server  # noqa: F401
from tests.pipelines.doctor.installation import REGISTRY, Installation, installed

pytestmark = pytest.mark.slow
ACCOUNT = "--service-account=kfrec-pipeline"


@pytest.fixture
def here(
    tmp_path: Path,
    s3_emulator: str,
    mlflow_server: MlflowServer,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Installation]:
    with installed(tmp_path, s3_emulator, mlflow_server, monkeypatch, capsys) as here:
        yield here


def test_a_complete_installation_lacks_nothing(
    here: Installation,
    mlflow_server: MlflowServer,  # noqa: F811
) -> None:
    told = here.doctor(ACCOUNT)
    assert (told.status, told.not_ok()) == (0, []), told.said
    assert "kfrec submit can work there" in told.said
    assert mlflow_server.environment["MLFLOW_TRACKING_PASSWORD"] not in told.said
    subjects = {subject for _, subject, _ in told.lines}
    of_kubernetes = {"kubernetes", "mpijobs", "settings", "accounts", "rights", "images", "gpus"}
    assert subjects == {"pipelines", "mlflow", "object store"} | of_kubernetes
    assert ("ok", f"{REGISTRY}/kfrec-cpu:0.1.0: on 1 of 2 nodes (sha256:abababababab)") in told.of("images")


def _mpijobs_of_a_training_operator(here: Installation) -> None:
    here.objects.define("mpijobs", "kubeflow.org", "v1")


def _old_mpi_operator(here: Installation) -> None:
    here.objects.define("mpijobs", "kubeflow.org", "v1", "v2beta1")


def _training_operator_beside(here: Installation) -> None:
    here.objects.define("tfjobs", "kubeflow.org", "v1")


def _no_registry(here: Installation) -> None:
    here.configure(KFREC_REGISTRY="")
    here.settings_of_jobs(image="kfrec-train:0.1.0")


def _pull_fails(here: Installation) -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "unauthorized"}}
    for name, labels in (("kfrec-mlflow-1", {"app.kubernetes.io/part-of": "kfrec"}), ("foreign-1", {})):
        pod = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": []}, "status": {
            "phase": "Pending", "containerStatuses": [{"image": "kfrec-cpu:0.1.0", "state": state}]}}  # fmt: skip
        here.api.put_pod(pod)


def _pull_secret(kind: str, data: dict[str, str]) -> Callable[[Installation], None]:
    def change(here: Installation) -> None:
        here.objects.put("serviceaccounts", "kfrec-worker", imagePullSecrets=[{"name": "registry-key"}])
        here.objects.put("secrets", "registry-key", type=kind, data=data)

    return change


def _unreadable_nodes(here: Installation) -> None:
    here.objects.unreadable = {"nodes", "customresourcedefinitions"}


def _queue(version: str, *queues: str) -> Callable[[Installation], None]:
    def change(here: Installation) -> None:
        here.settings_of_jobs(queue="gpus")
        here.objects.define("localqueues", "kueue.x-k8s.io", version)
        here.objects.custom |= {("kueue.x-k8s.io", "localqueues", "kubeflow", name) for name in queues}

    return change


def _gang(scheduler: str, group: str, *versions: str) -> Callable[[Installation], None]:
    def change(here: Installation) -> None:
        here.settings_of_jobs(scheduler=scheduler, scheduling_policy={"queue": "a"})
        if versions:
            here.objects.define("podgroups", group, *versions)

    return change


def _gone(plural: str, name: str) -> Callable[[Installation], object]:
    return lambda here: here.objects.core.pop((plural, "kubeflow", name))


def _refused(*verbs: tuple[str, str], account: str = "kfrec-pipeline") -> Callable[[Installation], None]:
    def change(here: Installation) -> None:
        here.objects.refused = {(account, resource, verb) for resource, verb in verbs}

    return change


def _kfp(**attributes: object) -> Callable[[Installation], None]:
    def change(here: Installation) -> None:
        for name, value in attributes.items():
            setattr(here.kfp, name, value)

    return change


def _launcher(**data: str) -> Callable[[Installation], None]:
    return lambda here: here.objects.put("configmaps", "kfp-launcher", data=data)


_DOCKER = "kubernetes.io/dockerconfigjson"
_OTHER_REGISTRY = json.dumps({"auths": {"https://other.example.org/v2/": {"auth": base64.b64encode(b"a:b").decode()}}})
_LACKS: dict[str, tuple[Callable[[Installation], object], str, str, str]] = {
    # what is changed; state, subject and part of the line
    "kfp is old": (_kfp(version="2.4.1"), "missing", "pipelines", "same literal run id; upgrade Kubeflow Pipelines"),
    "kfp tells no version": (
        _kfp(version="unknown"),
        "note",
        "pipelines",
        "does not report its version; check that it is 2.5",
    ),
    "kfp wants a token": (_kfp(token="t"), "missing", "pipelines", "refused (401); set KFP_TOKEN"),
    "kfp fails": (_kfp(answers=[500]), "missing", "pipelines", "answered 500 to a request for its health"),
    "no address of kfp": (
        lambda here: here.configure(KFP_ENDPOINT=""),
        "missing",
        "pipelines",
        "no address of KFP's API",
    ),
    "kfp is away": (
        lambda here: here.configure(KFP_ENDPOINT="http://127.0.0.1:9"),
        "missing",
        "pipelines",
        "9: does not answer",
    ),
    "no mpijobs": (
        lambda here: here.objects.crds.clear(),
        "missing",
        "mpijobs",
        "no mpijobs.kubeflow.org; install mpi-operator",
    ),
    "a training operator's mpijobs": (
        _mpijobs_of_a_training_operator,
        "missing",
        "mpijobs",
        "serves v1, as a Training Operator's does, and not v2beta1; ",
    ),
    "a training operator beside": (_training_operator_beside, "note", "mpijobs", "a Training Operator is here too"),
    "mpi-operator is old": (_old_mpi_operator, "note", "mpijobs", "of an mpi-operator before 0.6; install"),
    "no kueue": (
        lambda here: here.settings_of_jobs(queue="gpus"),
        "missing",
        "gang",
        "queue gpus of mpijob.yaml: Kueue is not installed",
    ),
    "no kueue for the component kueue": (
        lambda here: here.add_settings_of_jobs("mpijob.kueue.yaml", "queue: kfrec"),
        "missing",
        "gang",
        "queue kfrec of mpijob.yaml: Kueue is not installed",
    ),
    "no queue": (
        _queue("v1beta2"),
        "missing",
        "gang",
        "no LocalQueue of that name in kubeflow; add the component kueue",
    ),
    "an old kueue": (_queue("v1beta1", "gpus"), "note", "gang", "serves v1beta1, not v1beta2; write v1beta1"),
    "no volcano": (_gang("volcano", "scheduling.volcano.sh"), "missing", "gang", "no podgroups.scheduling.volcano.sh"),
    "volcano": (_gang("volcano", "scheduling.volcano.sh", "v1beta1"), "ok", "gang", "volcano.sh serves v1beta1"),
    "other pod groups": (
        _gang("plugins", "scheduling.x-k8s.io", "v1"),
        "missing",
        "gang",
        "serves v1; mpi-operator needs v1alpha1",
    ),
    "no settings": (
        _gone("configmaps", "kfrec-config"),
        "missing",
        "settings",
        "config map kfrec-config is not in kubeflow; kubectl apply",
    ),
    "no address of mlflow": (
        lambda here: here.configure(MLFLOW_TRACKING_URI=""),
        "missing",
        "settings",
        "kfrec-config lacks MLFLOW_TRACKING_URI",
    ),
    "no job settings": (
        _gone("configmaps", "kfrec-mpijob"),
        "missing",
        "settings",
        "config map kfrec-mpijob is not in",
    ),
    "wrong job settings": (
        lambda here: here.settings_of_jobs(imgae="x"),
        "missing",
        "settings",
        "config map kfrec-mpijob: mpijob.yaml: unknown",
    ),
    "job settings that are no yaml": (
        lambda here: here.objects.put("configmaps", "kfrec-mpijob", data={"mpijob.yaml": "image: ["}),
        "missing",
        "settings",
        "mpijob.yaml: not YAML",
    ),
    "a secret lacks what jobs take": (
        lambda here: here.settings_of_jobs(secret_environment={"kfrec-object-store": ["AWS_SESSION_TOKEN"]}),
        "note",
        "settings",
        "mpijob.yaml takes AWS_SESSION_TOKEN from it, which it lacks",
    ),
    "wrong settings of a component": (
        lambda here: here.add_settings_of_jobs("mpijob.kueue.yaml", "queu: kfrec"),
        "missing",
        "settings",
        "config map kfrec-mpijob: mpijob.kueue.yaml: unknown parameter queu: did you mean queue",
    ),
    "job settings that do not go together": (
        lambda here: here.settings_of_jobs(resources={"cpu": "1"}),
        "missing",
        "settings",
        "config map kfrec-mpijob: mpijob.yaml: resources: cpu is a parameter of the train step",
    ),
    "no account of mlflow": (
        _gone("secrets", "kfrec-mlflow"),
        "missing",
        "settings",
        "secret kfrec-mlflow is not in kubeflow; manifests/create-secrets.sh kubeflow",
    ),
    "half an account of mlflow": (
        lambda here: here.objects.put("secrets", "kfrec-mlflow", data={"MLFLOW_TRACKING_USERNAME": "admin"}),
        "missing",
        "settings",
        "secret kfrec-mlflow lacks MLFLOW_TRACKING_PASSWORD",
    ),
    "no key to the store": (
        _gone("secrets", "kfrec-object-store"),
        "missing",
        "settings",
        "secret kfrec-object-store is not in kubeflow; kubectl create",
    ),
    "kfp has no key to its store": (
        _gone("secrets", "mlpipeline-minio-artifact"),
        "missing",
        "settings",
        "KFP's key to its store, is not in kubeflow",
    ),
    "secrets that may not be read": (
        lambda here: here.objects.unreadable.add("secrets"),
        "note",
        "settings",
        "secret kfrec-mlflow may not be read (403",
    ),
    "no service account": (
        _gone("serviceaccounts", "kfrec-worker"),
        "missing",
        "accounts",
        "no service account kfrec-worker in",
    ),
    "no pull secret": (
        lambda here: here.settings_of_jobs(image_pull_secrets=["registry-key"]),
        "missing",
        "accounts",
        "registry-key, named by mpijob.yaml, is not in kubeflow; kubectl -n kubeflow create secret docker-registry",
    ),
    "a pull secret of another type": (_pull_secret("Opaque", {}), "missing", "accounts", "is of type Opaque"),
    "a pull secret for elsewhere": (
        _pull_secret(_DOCKER, {".dockerconfigjson": _OTHER_REGISTRY}),
        "note",
        "accounts",
        f"is for other.example.org, not for {REGISTRY}",
    ),
    "may not create jobs": (
        _refused(("mpijobs", "create"), ("mpijobs", "delete")),
        "missing",
        "rights",
        "mpijobs: kfrec-pipeline may not create, delete in kubeflow; apply the role",
    ),
    "may not read events": (
        _refused(("events", "list")),
        "note",
        "rights",
        "events: kfrec-pipeline may not list in kubeflow: reasons why pods",
    ),
    "may not read logs": (_refused(("pods/log", "get")), "note", "rights", "pods/log: kfrec-pipeline may not get"),
    "no rights for kfp": (
        _refused(("workflowtaskresults", "create")),
        "missing",
        "rights",
        "may not create workflowtaskresults in kubeflow; bind KFP's own role",
    ),
    "no registry": (
        _no_registry,
        "missing",
        "images",
        "kfrec-train:0.1.0 names no registry, and no node has it; set image in mpijob.yaml",
    ),
    "an image that cannot be pulled": (
        _pull_fails,
        "missing",
        "images",
        "pod kfrec-mlflow-1 cannot get its image: kfrec-cpu:0.1.0 ImagePullBackOff unauthorized; push it there",
    ),
    "nodes that may not be listed": (_unreadable_nodes, "note", "gpus", "nodes may not be listed (403)"),
    "no gpus": (
        lambda here: here.objects.nodes.pop(0),
        "note",
        "gpus",
        "nvidia.com/gpu: on none of 1 nodes; install the device plugin",
    ),
    "no such node": (
        lambda here: here.settings_of_jobs(node_selector={"accelerator": "h100"}),
        "note",
        "gpus",
        "(accelerator=h100)",
    ),
    "no bucket": (
        _launcher(defaultPipelineRoot="minio://other/v2"),
        "missing",
        "object store",
        "minio://other/v2: not there (NoSuchBucket)",
    ),
    "no store": (
        lambda here: here.configure(AWS_ENDPOINT_URL="http://127.0.0.1:9"),
        "missing",
        "object store",
        "at http://127.0.0.1:9: could not connect, or the connection broke off; check that",
    ),
    "s3 without providers": (
        _launcher(defaultPipelineRoot="s3://mlpipeline/v2"),
        "note",
        "object store",
        "kfp-launcher has no providers",
    ),
    "a root that is a folder": (
        _launcher(defaultPipelineRoot="/data"),
        "missing",
        "object store",
        "cannot hold artifacts",
    ),
    "mlflow refuses": (
        lambda here: here.objects.put(
            "secrets", "kfrec-mlflow", data={"MLFLOW_TRACKING_USERNAME": "admin", "MLFLOW_TRACKING_PASSWORD": "no"}
        ),
        "missing",
        "mlflow",
        "refused this account (401); set MLFLOW_TRACKING_USERNAME",
    ),
    "mlflow is away": (
        lambda here: here.configure(MLFLOW_TRACKING_URI="http://127.0.0.1:9"),
        "missing",
        "mlflow",
        "http://127.0.0.1:9 cannot be used",
    ),
    "mlflow is a file": (
        lambda here: here.configure(MLFLOW_TRACKING_URI="sqlite:///runs.db"),
        "missing",
        "mlflow",
        "name an MLflow server",
    ),
    "no namespace": (lambda here: here.objects.namespaces.clear(), "missing", "kubernetes", "no namespace kubeflow at"),
    "a service without pods": (
        lambda here: (
            here.configure(MLFLOW_TRACKING_URI="http://kfrec-mlflow:5000"),
            here.objects.put("services", "kfrec-mlflow"),
        ),
        "missing",
        "mlflow",
        "no pod of the service kfrec-mlflow is ready; kubectl -n kubeflow describe",
    ),
    "no service": (
        lambda here: here.configure(KFP_ENDPOINT="http://ml-pipeline.kfp:8888"),
        "missing",
        "pipelines",
        "there is no service ml-pipeline in namespace kfp; correct",
    ),
}


@pytest.fixture
def checks_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Leaves out the checks of all other subjects; asking every server would take the tests a minute."""

    def leave(subject: str) -> None:
        for name in ("SERVERS", "OBJECTS"):
            kept = tuple(check for check in getattr(checks, name) if check.subject == subject)
            monkeypatch.setattr(checks, name, kept)

    return leave


@pytest.mark.parametrize("lack", _LACKS)
def test_what_is_missing_is_a_line(lack: str, here: Installation, checks_of: Callable[[str], None]) -> None:
    change, state, subject, words = _LACKS[lack]
    checks_of(subject)
    change(here)
    told = here.doctor(ACCOUNT)
    assert [text for found, text in told.of(subject) if found == state and words in text], told.said
    lacking = sum(found == "missing" for found, _, _ in told.lines)
    assert (told.status, lacking > 0) == ((1, True) if state == "missing" else (0, False)), told.said
    assert (f"{lacking} missing" in told.said) == (state == "missing")


def test_an_address_inside_the_cluster_is_looked_at_from_outside(
    here: Installation, checks_of: Callable[[str], None]
) -> None:
    checks_of("mlflow")
    here.configure(MLFLOW_TRACKING_URI="http://kfrec-mlflow:5000")
    here.objects.put("services", "kfrec-mlflow")
    here.objects.ready["kfrec-mlflow"] = 1
    told = here.doctor(ACCOUNT)
    ((state, text),) = told.of("mlflow")
    assert (state, told.status) == ("note", 0)
    assert "port-forward service/kfrec-mlflow and set MLFLOW_TRACKING_URI to http://localhost:5000" in text


@pytest.mark.parametrize(
    ("version", "store", "words"),
    [
        ("2.5.0", "database", "a schedule that is replaced stays paused"),
        ("2.16.0", "database", "replaces schedules at once"),
        ("2.17.0", "database", "can keep pipelines as Kubernetes objects"),
        ("2.17.0", "kubernetes", "; keeps pipelines as Kubernetes objects"),
    ],
)
def test_what_kfp_can_do(
    here: Installation, version: str, store: str, words: str, checks_of: Callable[[str], None]
) -> None:
    checks_of("pipelines")
    here.kfp.version, here.kfp.pipeline_store = version, store
    told = here.doctor(ACCOUNT)
    assert told.status == 0 and words in told.of("pipelines")[0][1]


def test_kfp_with_several_users_is_asked_for_one_of_them(here: Installation, checks_of: Callable[[str], None]) -> None:
    checks_of("pipelines")
    here.kfp.multi_user = True
    told = here.doctor(ACCOUNT)
    assert ("ok", "KFP lets this user list experiments of namespace kubeflow") in told.of("pipelines")


def test_rights_are_asked_in_the_accounts_place_where_one_may_not_ask_about_it(
    here: Installation, checks_of: Callable[[str], None]
) -> None:
    checks_of("rights")
    here.objects.may_review = False
    _refused(("mpijobs", "create"))(here)
    assert here.doctor(ACCOUNT).of("rights")[0][0] == "missing"
    here.objects.may_impersonate = False
    told = here.doctor(ACCOUNT)
    ((state, text),) = told.of("rights")
    assert (state, told.status) == ("note", 0)
    assert "the rights of kfrec-pipeline cannot be checked (serviceaccounts" in text


def test_without_an_account_the_rights_are_ones_own(here: Installation, checks_of: Callable[[str], None]) -> None:
    checks_of("rights")
    _refused(("mpijobs", "create"), account="")(here)
    told = here.doctor()
    assert told.of("rights")[0] == (
        "missing",
        "mpijobs: this account may not create in kubeflow; apply the role of manifests/base/rights.yaml and bind it",
    )
    assert told.of("rights")[-1][1].endswith("--service-account kfrec-pipeline checks those of the steps' account")


def test_without_kubernetes_the_servers_are_still_looked_at(
    here: Installation,
    monkeypatch: pytest.MonkeyPatch,
    mlflow_server: MlflowServer,  # noqa: F811
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/proc/none")
    for name in ("URI", "USERNAME", "PASSWORD"):
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", mlflow_server.environment[f"MLFLOW_TRACKING_{name}"])
    told = here.doctor()
    assert told.status == 1 and told.of("kubernetes")[0][0] == "missing"
    assert told.of("mlflow")[0][0] == "ok"
    assert told.of("others") == [
        ("note", "not checked without the Kubernetes API: mpijobs, gang, settings, accounts, rights, images, gpus")
    ]


def test_a_kubernetes_that_is_away_is_a_line(here: Installation) -> None:
    here.api.down.set()
    told = here.doctor()
    assert told.status == 1 and "does not answer" in told.of("kubernetes")[0][1]


def test_nothing_is_left_in_the_store(here: Installation, checks_of: Callable[[str], None]) -> None:
    checks_of("object store")
    import boto3

    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    assert here.doctor(ACCOUNT).of("object store")[0][0] == "ok"
    assert "Contents" not in boto3.client("s3", endpoint_url=here.store, **keys).list_objects_v2(Bucket="mlpipeline")
