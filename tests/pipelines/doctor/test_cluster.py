"""``kfrec doctor --cluster`` where something is missing: the line that says so, and the exit status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.doctor import cluster
from pipelines.doctor.cluster.examined import version_in
from tests.fakes.handler import answering
from tests.fakes.kubernetes_api import write_kubeconfig
from tests.fakes.mlflow_server import MlflowServer
from tests.pipelines.doctor.installation import Installation, installed

pytestmark = pytest.mark.slow
ACCOUNT = "--service-account=kfrec-pipeline"


@pytest.fixture
def here(
    tmp_path: Path,
    s3_emulator: str,
    mlflow_server: MlflowServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Installation]:
    with installed(tmp_path, s3_emulator, mlflow_server, monkeypatch, capsys) as here:
        yield here


def test_a_complete_installation_lacks_nothing(here: Installation, mlflow_server: MlflowServer) -> None:
    told = here.doctor(ACCOUNT)
    assert (told.status, told.not_ok()) == (0, []), told.said
    assert "kfrec submit can work there" in told.said
    assert mlflow_server.environment["MLFLOW_TRACKING_PASSWORD"] not in told.said
    subjects = {subject for _, subject, _ in told.lines}
    of_kubernetes = {"kubernetes", "mpijobs", "settings", "accounts", "rights", "gpus"}
    assert subjects == {"pipelines", "mlflow", "object store"} | of_kubernetes
    assert ("ok", "nvidia.com/gpu: 4 on 1 of 2 nodes") in told.of("gpus")


def test_no_line_has_a_password_of_the_settings(here: Installation) -> None:
    here.configure(KFREC_LOGS="https://ann:canary@PROJECT.example/logs")
    told = here.doctor(ACCOUNT)
    assert "KFREC_LOGS: https://ann:***@PROJECT.example/logs has the placeholder PROJECT" in told.said
    assert "canary" not in told.said


Change = Callable[[Installation], object]


def _config(**values: str) -> Change:
    return lambda here: here.configure(**values)


def _jobs(**settings: object) -> Change:
    return lambda here: here.settings_of_jobs(**settings)


def _component(name: str, text: str) -> Change:
    return lambda here: here.add_settings_of_jobs(name, text)


def _put(plural: str, name: str, **fields: Any) -> Change:
    return lambda here: here.objects.put(plural, name, **fields)


def _gone(plural: str, name: str) -> Change:
    return lambda here: here.objects.core.pop((plural, "kubeflow", name))


def _crd(plural: str, *versions: str, group: str = "kubeflow.org") -> Change:
    return lambda here: here.objects.define(plural, group, *versions)


def _unreadable(*plurals: str) -> Change:
    return lambda here: here.objects.unreadable.update(plurals)


def _refused(*verbs: tuple[str, str], account: str = "kfrec-pipeline") -> Change:
    return lambda here: here.objects.refused.update((account, resource, verb) for resource, verb in verbs)


def _kfp(**attributes: object) -> Change:
    return lambda here: vars(here.kfp).update(attributes)


def _root(pipeline_root: str) -> Change:
    return _put("configmaps", "kfp-launcher", data={"defaultPipelineRoot": pipeline_root})


def _all(*changes: Change) -> Change:
    return lambda here: [change(here) for change in changes]


def _ready(service: str) -> Change:
    return _all(_put("services", service), lambda here: here.objects.ready.update({service: 1}))


_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_ADMIN = {"MLFLOW_TRACKING_USERNAME": "admin"}
_LACKS: dict[tuple[str, str], dict[str, tuple[Change, str]]] = {
    # subject and state of the line: what is changed, and part of the line
    ("pipelines", "missing"): {
        "kfp is old": (_kfp(version="2.4.1"), "has the same literal run id; upgrade Kubeflow Pipelines"),
        "kfp wants a token": (_kfp(token="t"), "refused (401); set KFP_TOKEN"),
        "kfp fails": (_kfp(answers=[500]), "answered 500 to a request for its health"),
        "no address of kfp": (_config(KFP_ENDPOINT=""), "no address of KFP's API"),
        "kfp is away": (_config(KFP_ENDPOINT="http://127.0.0.1:9"), "9: does not answer"),
        "no service": (
            _config(KFP_ENDPOINT="http://ml-pipeline.kfp:8888"),
            "there is no service ml-pipeline in namespace kfp; correct",
        ),
    },
    ("pipelines", "note"): {
        "a version that nothing tells": (
            _kfp(version="unknown", pipeline_store=""),
            "unknown version at http://127.0.0.1",
        ),
        "a kfp that retries no nested steps": (
            _kfp(version="2.5.0"),
            "does not retry the steps of a retraining; upgrade",
        ),
    },
    ("mpijobs", "missing"): {
        "no mpijobs": (lambda here: here.objects.crds.clear(), "no mpijobs.kubeflow.org; install mpi-operator"),
        "a training operator's mpijobs": (
            _crd("mpijobs", "v1"),
            "serves v1, as a Training Operator's does, and not v2beta1; ",
        ),
    },
    ("settings", "missing"): {
        "no settings": (
            _gone("configmaps", "kfrec-config"),
            "config map kfrec-config is not in kubeflow; kubectl apply",
        ),
        "no address of mlflow": (_config(MLFLOW_TRACKING_URI=""), "kfrec-config lacks MLFLOW_TRACKING_URI"),
        "no registry": (_config(KFREC_REGISTRY=""), "config map kfrec-config lacks KFREC_REGISTRY; kubectl"),
        "the registry of the manifests": (
            _config(KFREC_REGISTRY="registry.example.org"),
            "config map kfrec-config: KFREC_REGISTRY: registry.example.org has the placeholder registry.example.org",
        ),
        "an image of the manifests": (
            _jobs(image="europe-docker.pkg.dev/PROJECT/kfrec/kfrec-train:0.1.0"),
            "mpijob.yaml: image: europe-docker.pkg.dev/PROJECT/kfrec/kfrec-train:0.1.0 has the placeholder PROJECT",
        ),
        "a secret of jobs that is none": (
            _jobs(secret_environment={"kfrec-objectstore": ["AWS_ACCESS_KEY_ID"]}),
            "mpijob.yaml: secret_environment: secret kfrec-objectstore is not in kubeflow; correct the name",
        ),
        "a pull secret that is none": (
            _jobs(image_pull_secrets=["pul"]),
            "mpijob.yaml: image_pull_secrets: secret pul is not in kubeflow",
        ),
        "a namespace of jobs that is none": (
            _jobs(namespace="ad"),
            "mpijob.yaml: namespace: there is no namespace ad; correct it",
        ),
        "no job settings": (_gone("configmaps", "kfrec-mpijob"), "config map kfrec-mpijob is not in"),
        "wrong job settings": (_jobs(imgae="x"), "config map kfrec-mpijob: mpijob.yaml: unknown"),
        "job settings that are no yaml": (
            _put("configmaps", "kfrec-mpijob", data={"mpijob.yaml": "image: ["}),
            "mpijob.yaml: not YAML",
        ),
        "wrong settings of a component": (
            _component("mpijob.kueue.yaml", "queu: kfrec"),
            "config map kfrec-mpijob: mpijob.kueue.yaml: unknown parameter queu: did you mean queue",
        ),
        "job settings that do not go together": (
            _jobs(resources={"cpu": "1"}),
            "config map kfrec-mpijob: mpijob.yaml: resources: cpu is a parameter of the train step",
        ),
        "no account of mlflow": (
            _gone("secrets", "kfrec-mlflow"),
            "secret kfrec-mlflow is not in kubeflow; manifests/create-secrets.sh kubeflow",
        ),
        "half an account of mlflow": (
            _put("secrets", "kfrec-mlflow", data=_ADMIN),
            "secret kfrec-mlflow lacks MLFLOW_TRACKING_PASSWORD",
        ),
        "no key to the store": (
            _gone("secrets", "kfrec-object-store"),
            "secret kfrec-object-store is not in kubeflow; kubectl create",
        ),
    },
    ("settings", "note"): {
        "images of two registries": (
            _jobs(image="registry.other.org/kfrec-train:0.1.0"),
            "image: registry.other.org/kfrec-train:0.1.0 is not from KFREC_REGISTRY=registry.team.org/ads",
        ),
        "secrets that may not be read": (_unreadable("secrets"), "secret kfrec-mlflow may not be read (403"),
    },
    ("accounts", "missing"): {
        "no service account": (_gone("serviceaccounts", "kfrec-worker"), "no service account kfrec-worker in"),
    },
    ("rights", "missing"): {
        "may not create jobs": (
            _refused(("mpijobs", "create"), ("mpijobs", "delete")),
            "mpijobs: kfrec-pipeline may not create, delete in kubeflow; apply the role",
        ),
        "no rights for kfp": (
            _refused(("workflowtaskresults", "create")),
            "workflowtaskresults: kfrec-pipeline may not create in kubeflow; bind KFP's own role",
        ),
    },
    ("rights", "note"): {
        "may not read events": (
            _refused(("events", "list")),
            "events: kfrec-pipeline may not list in kubeflow: reasons why pods",
        ),
        "may not read logs": (_refused(("pods/log", "get")), "pods/log: kfrec-pipeline may not get"),
        "no right to results where nothing tells whether it is needed": (
            _all(_refused(("workflowtaskresults", "create")), _kfp(version="unknown", pipeline_store="")),
            "may not create in kubeflow: KFP 2.14 and newer need it",
        ),
    },
    ("gpus", "note"): {
        "nodes that may not be listed": (
            _unreadable("nodes", "customresourcedefinitions"),
            "nodes may not be listed (403)",
        ),
        "no gpus": (
            lambda here: here.objects.nodes.pop(0),
            "nvidia.com/gpu: on none of 1 nodes; install the device plugin",
        ),
    },
    ("object store", "missing"): {
        "no bucket": (_root("minio://other/v2"), "minio://other/v2: not there (NoSuchBucket)"),
        "no store": (
            _config(AWS_ENDPOINT_URL="http://127.0.0.1:9"),
            "at http://127.0.0.1:9: could not connect, or the connection broke off; check that",
        ),
        "a root that is a folder": (_root("/data"), "cannot hold artifacts"),
        "a root without a bucket": (_root("minio://othr/v2"), "this is the pipeline root, kfp-launcher: default"),
        "no bucket of the logs": (
            _config(KFREC_LOGS="s3://lgs/logs"),
            "KFREC_LOGS: s3://lgs/logs: not there (NoSuchBucket); check the source",
        ),
        "the store of another kfp": (
            _all(_config(AWS_ENDPOINT_URL="http://seaweedfs.kubeflow:9000"), _ready("minio-service")),
            "there is no service seaweedfs in namespace kubeflow; http://minio-service.kubeflow:9000 answers: write it",
        ),
    },
    ("object store", "note"): {
        "s3 without providers": (_root("s3://mlpipeline/v2"), "kfp-launcher has no providers"),
    },
    ("mlflow", "missing"): {
        "mlflow refuses": (
            _put("secrets", "kfrec-mlflow", data={**_ADMIN, "MLFLOW_TRACKING_PASSWORD": "no"}),
            "refused this account (401); set MLFLOW_TRACKING_USERNAME",
        ),
        "mlflow is away": (_config(MLFLOW_TRACKING_URI="http://127.0.0.1:9"), "http://127.0.0.1:9 cannot be used"),
        "mlflow is a file": (_config(MLFLOW_TRACKING_URI="sqlite:///runs.db"), "name an MLflow server"),
        "a service without pods": (
            _all(_config(MLFLOW_TRACKING_URI="http://kfrec-mlflow:5000"), _put("services", "kfrec-mlflow")),
            "no pod of the service kfrec-mlflow is ready; kubectl -n kubeflow describe",
        ),
    },
    ("kubernetes", "missing"): {
        "no namespace": (lambda here: here.objects.namespaces.clear(), "no namespace kubeflow at"),
        "a namespace that refuses the pods of kfp": (
            _all(lambda here: here.objects.namespaces.update(kubeflow=_RESTRICTED), _kfp(version="2.16.1")),
            "enforces restricted pod security, and KFP before 2.17 starts the steps' pods without runAsNonRoot",
        ),
    },
}


@pytest.fixture
def checks_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Leaves out the checks of all other subjects; asking every server would take the tests a minute."""

    def leave(subject: str) -> None:
        for name in ("SERVERS", "OBJECTS"):
            kept = tuple(check for check in getattr(cluster, name) if check.subject == subject)
            monkeypatch.setattr(cluster, name, kept)

    return leave


@pytest.mark.parametrize(
    ("subject", "state", "change", "words"),
    [
        pytest.param(*kind, change, words, id=lack)
        for kind, lacks in _LACKS.items()
        for lack, (change, words) in lacks.items()
    ],
)
def test_what_is_missing_is_a_line(
    subject: str, state: str, change: Change, words: str, here: Installation, checks_of: Callable[[str], None]
) -> None:
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


def test_a_kfp_whose_image_has_no_tag_is_known_by_its_config_map(
    here: Installation, checks_of: Callable[[str], None]
) -> None:
    checks_of("pipelines")
    here.kfp.version = "unknown"
    assert here.doctor().of("pipelines")[0][1].startswith("2.14 or newer at http")
    here.objects.put("configmaps", "pipeline-install-config", data={"appName": "pipeline", "appVersion": "2.17.0"})
    assert here.doctor().of("pipelines")[0][1].startswith("2.17.0 at http")


def test_a_restricted_namespace_takes_the_pods_of_steps_from_kfp_2_17_on(
    here: Installation, checks_of: Callable[[str], None]
) -> None:
    checks_of("kubernetes")
    here.objects.namespaces["kubeflow"] = _RESTRICTED
    here.kfp.version = "2.17.0"
    assert here.doctor().not_ok() == []


def test_an_account_that_may_read_no_namespace_checks_the_rest(
    here: Installation, checks_of: Callable[[str], None]
) -> None:
    checks_of("settings")
    here.objects.unreadable.add("namespaces")
    here.settings_of_jobs(namespace="kubeflow")
    assert here.doctor().not_ok() == []


def test_a_kfp_before_2_14_needs_no_right_to_results(here: Installation, checks_of: Callable[[str], None]) -> None:
    checks_of("rights")
    here.kfp.version = "2.5.0"
    _refused(("workflowtaskresults", "create"))(here)
    assert here.doctor(ACCOUNT).not_ok() == []


def test_kfp_with_several_users_is_asked_for_one_of_them(here: Installation, checks_of: Callable[[str], None]) -> None:
    checks_of("pipelines")
    here.kfp.multi_user = True
    told = here.doctor(ACCOUNT)
    assert told.of("pipelines")[0][0] == "ok"
    assert any(path.endswith("experiments") for _, path, _, _ in here.kfp.answered)


def test_rights_that_one_may_not_ask_for(here: Installation, checks_of: Callable[[str], None]) -> None:
    checks_of("rights")
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
    here: Installation, monkeypatch: pytest.MonkeyPatch, mlflow_server: MlflowServer
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/proc/none")
    for name in ("URI", "USERNAME", "PASSWORD"):
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", mlflow_server.environment[f"MLFLOW_TRACKING_{name}"])
    told = here.doctor()
    assert told.status == 1 and told.of("kubernetes")[0][0] == "missing"
    assert told.of("mlflow")[0][0] == "ok"
    assert told.of("others") == [
        ("note", "not checked without the Kubernetes API: mpijobs, settings, accounts, rights, gpus")
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


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, "<html>Sign in</html>", "answers with a page that is not the Kubernetes API, perhaps a login page"),
        (401, "", "refused (401 Unauthorized); log in to the cluster again"),
        (503, "", "refused (503 Service Unavailable); try again, or check KUBECONFIG"),
    ],
)
def test_a_page_in_place_of_kubernetes_is_told_as_such(
    here: Installation, status: int, body: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(status, body, Content_Type="text/html") as url:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "other", url)))
        ((state, line),) = here.doctor(ACCOUNT).of("kubernetes")
    assert state == "missing" and told in line


def test_a_context_with_an_empty_namespace_is_that_of_kfp(here: Installation, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    body = yaml.safe_load(file.read_text())
    body["contexts"][0]["context"]["namespace"] = None
    file.write_text(yaml.safe_dump(body))
    told = here.doctor(ACCOUNT)
    assert (told.status, told.not_ok()) == (0, []), told.said


def test_a_kubeconfig_that_is_a_folder_is_none(
    here: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    ((state, line),) = here.doctor(ACCOUNT).of("kubernetes")
    assert state == "missing" and "Is a directory" in line and "set KUBECONFIG" in line


@pytest.mark.parametrize(
    ("tag", "version"), [("2.16.0", (2, 16)), ("v2.5.0-rc.2", (2, 5)), ("unknown", None), ("", None), ("dev", None)]
)
def test_a_version_is_known_where_kfp_tells_it(tag: str, version: tuple[int, int] | None) -> None:
    assert version_in(tag) == version
