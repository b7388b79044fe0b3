"""An installation of kfrec beside KFP, which the tests of this folder share, and what they look at it with."""

from __future__ import annotations

import atexit
import base64
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from mlflow import MlflowClient
from xdist.scheduler import LoadScopeScheduling

from components.artifacts.reference import data_uri
from pipelines.defaults import TRAINING, Pipeline
from tests.cluster import kubectl as k8s
from tests.cluster.apply import at_the_node
from tests.cluster.build import locked
from tests.cluster.images import REGISTRY
from tests.cluster.servers import ADDRESS, KEYS, STORE_PORT
from tests.cluster.steps import BUCKET, Place, Run
from tests.fakes.handler import free_port
from tests.fakes.kfp_api import KfpApi
from tests.waiting import LONGEST

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "manifests"
NAMESPACE = "kubeflow"
OVERLAY = "standalone"
PLACEHOLDER = "registry.example.org"


# These run beside the tests that train, in a process of their own.
INSTALLATION = {
    f"test_{name}.py" for name in ("admission", "doctor", "mlflow_server", "overlays", "rights", "schedules")
}


def node_folder() -> Path:
    """The folder of this machine's own node; a test that stops its servers is skipped on any other cluster."""
    if "KFREC_CLUSTER_NODE" not in os.environ:
        pytest.skip("stops a server of the cluster, so it runs on a node of its own only")
    return Path(os.environ["KFREC_CLUSTER_NODE"])


class Groups(LoadScopeScheduling):
    """Gives each of two processes one of the groups."""

    def _split_scope(self, nodeid: str) -> str:
        return "installation" if nodeid.partition("::")[0].rpartition("/")[2] in INSTALLATION else "trainings"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return Groups(config, log)


def pytest_sessionfinish() -> None:
    if process := os.environ.get("PYTEST_XDIST_WORKER"):
        _ended(process).touch()


def _ended(process: str) -> Path:
    """The file that says that a group's process has run its tests."""
    return node_folder() / f"{process}.ended"


@pytest.fixture
def alone() -> None:
    """A test that disturbs all others waits until the other group has ended."""
    if process := os.environ.get("PYTEST_XDIST_WORKER"):
        others = {f"gw{number}" for number in range(int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))} - {process}
        k8s.wait_for(lambda: all(_ended(other).exists() for other in others))


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The overlay, applied where every pod has to be restricted, with its secrets; MLflow answers."""
    shared = Path(os.environ.get("KFREC_CLUSTER_NODE") or tmp_path_factory.getbasetemp())
    with locked(shared / "installing"):
        return installed(tmp_path_factory.mktemp("installed"))


def installed(folder: Path) -> Place:
    """Applies the overlay from a copy in ``folder``; a second time changes nothing."""
    registry = os.environ.get("KFREC_REGISTRY") or REGISTRY
    if BUCKET not in [entry["Name"] for entry in store().list_buckets()["Buckets"]]:
        store().create_bucket(Bucket=BUCKET)
    k8s.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    if k8s.found(NAMESPACE, "secret", "kfrec-mlflow") is None:
        subprocess.run([str(MANIFESTS / "create-secrets.sh"), NAMESPACE], check=True)
    kept = secret_of(NAMESPACE, "mlpipeline-minio-artifact")
    keys = {"AWS_ACCESS_KEY_ID": kept["accesskey"], "AWS_SECRET_ACCESS_KEY": kept["secretkey"]}
    literals = [f"--from-literal={name}={value}" for name, value in keys.items()]
    secret = ["create", "secret", "generic", "kfrec-object-store", *literals, "--dry-run=client", "-o", "yaml"]
    k8s.kubectl("-n", NAMESPACE, "apply", "-f", "-", given=k8s.kubectl(*secret))
    overlay = with_registry(folder / "manifests", registry)
    k8s.kubectl("apply", "-k", str(overlay))
    k8s.kubectl("-n", NAMESPACE, "rollout", "status", "deployment/kfrec-mlflow", f"--timeout={LONGEST:.0f}s")
    config = k8s.found(NAMESPACE, "configmap", "kfrec-config")
    assert config is not None
    settings = Path(__file__).with_name("settings.yaml")
    return Place(NAMESPACE, "kfrec-pipeline", config["data"]["AWS_ENDPOINT_URL"], registry, settings, overlay)


def with_registry(folder: Path, registry: str) -> Path:
    """The overlay with the images' registry in it, as its user writes it there; in a copy of the manifests."""
    shutil.copytree(MANIFESTS, folder)
    if "KFREC_CLUSTER_NODE" in os.environ:
        database = folder / "components" / "postgres" / "postgres.yaml"
        database.write_text(re.sub(r"@sha256:\w+", "", database.read_text()))  # its image there is our own
    for file in (folder / "overlays" / OVERLAY).glob("*.yaml"):
        file.write_text(file.read_text().replace(PLACEHOLDER, registry))
    return folder / "overlays" / OVERLAY


@cache
def store() -> Any:
    """A client of the object store that KFP brings."""
    url, key, secret = f"http://{ADDRESS}:{STORE_PORT}", *KEYS.values()
    if "KFREC_CLUSTER_NODE" not in os.environ:
        url = _UNTIL_THE_END.enter_context(forwarded(NAMESPACE, "service/seaweedfs", STORE_PORT))
        kept = secret_of(NAMESPACE, "mlpipeline-minio-artifact")
        key, secret = kept["accesskey"], kept["secretkey"]
    return boto3.client(
        "s3", endpoint_url=url, aws_access_key_id=key, aws_secret_access_key=secret, region_name="us-east-1"
    )


_UNTIL_THE_END = ExitStack()
atexit.register(_UNTIL_THE_END.close)


@pytest.fixture(scope="session")
def kfp(place: Place) -> Iterator[KfpApi]:
    """KFP's API at the address that the overlay names; its runs never end."""
    node_folder()
    api = KfpApi()
    api.states = ["RUNNING"]
    with api.served(ADDRESS, 8888):
        k8s.apply(at_the_node("ml-pipeline", place.namespace, 8888))
        yield api
    k8s.kubectl("-n", place.namespace, "delete", "service/ml-pipeline", "endpointslice/ml-pipeline")


def secret_of(namespace: str, name: str) -> dict[str, str]:
    body = k8s.found(namespace, "secret", name)
    assert body is not None, f"no secret {name} in {namespace}"
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


@contextmanager
def forwarded(namespace: str, target: str, port: int) -> Iterator[str]:
    """A server of the cluster, at a URL of this machine."""
    own = free_port()
    command = ["kubectl", "-n", namespace, "port-forward", target, f"{own}:{port}"]
    # kubectl ends with the first connection that its pod breaks off, such as that of a server that is restarted.
    again = ["sh", "-c", 'while :; do "$@"; sleep 1; done', "sh", *command]
    process = subprocess.Popen(again, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None and "Forwarding" in process.stdout.readline()
        yield f"http://localhost:{own}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


@pytest.fixture
def tracked(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowClient]:
    """A client of the installation's MLflow server."""
    for name, value in secret_of(place.namespace, "kfrec-mlflow").items():
        monkeypatch.setenv(name, value)
    with forwarded(place.namespace, "service/kfrec-mlflow", 5000) as url:
        yield MlflowClient(tracking_uri=url, registry_uri=url)


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """A new namespace that accepts restricted pods only."""
    name = f"kfrec-test-{os.getpid()}-{abs(hash(request.node.name)) % 10**6}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    k8s.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}])
    k8s.wait_for(lambda: k8s.found(name, "serviceaccount", "default"))
    yield name
    k8s.kubectl("delete", "namespace", name, "--wait=false")


def in_namespace(folder: Path, namespace: str, *resources: Path, components: tuple[Path, ...] = ()) -> Path:
    """A kustomization that puts manifests into a namespace; returns its folder."""
    folder.mkdir(exist_ok=True)
    body = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": namespace,
        "resources": [os.path.relpath(path, folder) for path in resources],
        "components": [os.path.relpath(path, folder) for path in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(body))
    return folder


# A training of half a minute on two cores; checkpoints are frequent, so that each fault has one to resume from.
VALUES = {
    "synthetic_users": 400, "synthetic_items": 300, "embedding_dim": 4, "global_batch_size": 512,
    "max_sequence_length": 30, "epochs": 6, "patience": 0, "checkpoint_steps": 5, "train_seed": 7,
    "workers": 2, "gpus_per_worker": 0, "auc_floor": 0.3, "bootstrap_samples": 100, "require_baseline": False,
    "pod_cpu": "100m", "pod_memory": "3Gi", "shared_memory": "256Mi",
}  # fmt: skip
TRAINING_PIPELINE = Pipeline(TRAINING, "din")
# A file of settings: the launcher's default request is a core.
SMALL_LAUNCHER = ("mpijob.small.yaml", "launcher_cpu: 50m\n")


@pytest.fixture(scope="session")
def prepared(place: Place) -> Iterator[Run]:
    """A run with records to train on."""
    run = Run(place, TRAINING_PIPELINE, VALUES)
    with patched_settings(place, *SMALL_LAUNCHER):
        for task in ("download", "preprocess", "tfrecord"):
            run.step(task)
        yield run


@pytest.fixture(scope="session")
def trained(prepared: Run) -> Run:
    """That run with the model of a training without faults."""
    prepared.step("train")
    return prepared


@pytest.fixture(scope="session")
def registered(trained: Run) -> Run:
    """That run, with its model registered."""
    trained.step("evaluate")
    trained.step("register")
    return trained


class Training:
    """A train step of its own run, on the records of another one.

    Args:
        prepared: has the records.
        values: parameters beside the common ones.
    """

    def __init__(self, prepared: Run, **values: Any) -> None:
        self.run = Run(prepared.place, TRAINING_PIPELINE, VALUES | values, prepared)
        self._namespace = prepared.place.namespace
        self.pod = self.run.start("train")

    def jobs(self) -> list[str]:
        """The MPIJobs of this run that are there."""
        there = k8s.listed(self._namespace, "mpijobs")
        owned = [body for body in there if self.run.owns(body)]
        return sorted(body["metadata"]["name"] for body in owned)

    def pods(self) -> list[str]:
        """The pods of its MPIJobs."""
        names = self.jobs()
        there = k8s.listed(self._namespace, "pods", "-l", "training.kubeflow.org/job-name")
        return sorted(
            body["metadata"]["name"]
            for body in there
            if body["metadata"]["labels"]["training.kubeflow.org/job-name"] in names
        )

    def await_checkpoint(self) -> str:
        """Waits for something to resume from, and returns the name of the job that made it."""
        prefix = data_uri(self.run.uri("train", "model")).removeprefix(f"s3://{BUCKET}/")

        def there() -> bool:
            assert k8s.phase(self._namespace, self.pod) in ("Pending", "Running"), self.run.log(self.pod)
            found = store().list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
            return any("checkpoint" in entry["Key"] for entry in found) and bool(self.jobs())

        k8s.wait_for(there)
        return self.jobs()[-1]

    def await_job_after(self, job: str) -> str:
        """Waits for the job that replaces another one, and returns its name."""
        k8s.wait_for(lambda: self.jobs() and self.jobs()[-1] > job)
        return self.jobs()[-1]

    def await_line(self, text: str) -> None:
        """Waits until the step says something."""
        ended = ("Succeeded", "Failed", "")
        k8s.wait_for(lambda: text in self.run.log(self.pod) or k8s.phase(self._namespace, self.pod) in ended)
        assert text in self.run.log(self.pod), self.run.log(self.pod)

    def finish(self) -> str:
        """Waits for the step's success and returns what it said."""
        said = self.run.finish(self.pod)
        assert said is not None, self.run.log(self.pod)
        return said

    def result(self) -> Json:
        """training.json of the model."""
        return training_of(self.run)


def training_of(run: Run) -> Json:
    return json.loads(read(f"{data_uri(run.uri('train', 'model'))}/training.json"))


def read(uri: str) -> bytes:
    """An object of the bucket."""
    return bytes(store().get_object(Bucket=BUCKET, Key=uri.removeprefix(f"s3://{BUCKET}/"))["Body"].read())


def shown(tracked: MlflowClient, run: Run) -> tuple[dict[str, list[int]], dict[str, float]]:
    """What MLflow shows of a training: the steps of its curves, and the newest value of each metric."""
    experiments = [experiment.experiment_id for experiment in tracked.search_experiments()]
    found = tracked.search_runs(experiments, f"tags.`kfrec.pipeline_run` = '{run.id}'")
    if not found:
        return {"loss": [], "epoch/train_loss": []}, {}
    shown_run = found[0]
    curves = {
        name: [point.step for point in tracked.get_metric_history(shown_run.info.run_id, name)]
        for name in ("loss", "epoch/train_loss")
    }
    return curves, shown_run.data.metrics


def assert_same_model(training: Training, trained: Run) -> None:
    """The losses of every epoch are those of the training without a fault."""
    expected, result = training_of(trained), training.result()
    assert len(result["epochs"]) == len(expected["epochs"])
    for epoch, other in zip(result["epochs"], expected["epochs"], strict=True):
        for name, value in other.items():
            if "loss" in name or "auc" in name:
                assert epoch[name] == pytest.approx(value, abs=0.02), name


def assert_nothing_runs(training: Training) -> None:
    """A finished step leaves no pod of its jobs running."""
    namespace = training.run.place.namespace

    def running() -> list[str]:
        return [pod for pod in training.pods() if k8s.phase(namespace, pod) in ("Pending", "Running")]

    k8s.wait_for(lambda: not running())


@contextmanager
def patched_settings(place: Place, file: str, text: str) -> Iterator[None]:
    """MPIJobs have the settings of one more file while the block runs."""
    command = ["-n", place.namespace, "patch", "configmap", "kfrec-mpijob", "--type=merge", "-p"]
    k8s.kubectl(*command, json.dumps({"data": {file: text}}))
    try:
        yield
    finally:
        k8s.kubectl(*command, json.dumps({"data": {file: None}}))


def in_pod(namespace: str, pod: str, program: str, container: str = "") -> str:
    """Runs a Python program in a pod's container and returns what it prints."""
    named = ["-c", container] if container else []
    return k8s.kubectl("-n", namespace, "exec", pod, *named, "--", "python", "-c", program)


# Signals processes by their command line, and prints them; a container's first process takes no SIGKILL from within.
SIGNAL = """
import os, signal
from pathlib import Path
for path in Path("/proc").glob("[0-9]*/cmdline"):
    words = path.read_bytes()
    if int(path.parent.name) not in (1, os.getpid()) and {word!r}.encode() in words:
        os.kill(int(path.parent.name), {signal})
        print(path.parent.name)
"""
