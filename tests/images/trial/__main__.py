"""Builds the images on stand-ins of their bases and runs them as a cluster would: ``make images-test``.

Real are the Dockerfiles, the steps' commands from the compiled pipeline, a PostgreSQL, the network between containers,
sshd, mpirun and Horovod. Acted out are KFP's copies from and to the bucket, mpi-operator's objects, the Kubernetes API
and S3. The preprocess image is not built, since its base is of use on a GPU alone: its step runs in this environment.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
import yaml
from moto.server import ThreadedMotoServer

from components.artifacts import open_artifact
from components.artifacts.reference import data_uri
from images.build import REQUIREMENTS, Image, load_images
from pipelines.compilation import compiled
from pipelines.defaults import TRAINING, Pipeline
from pipelines.task_settings import load_settings
from tests.fakes.kubernetes_api import NAMESPACE, KubernetesApi, write_kubeconfig
from tests.fakes.postgres import programs, running_postgres
from tests.images.trial import bases
from tests.images.trial.mpi_operator import Operator
from tests.images.trial.podman import NETWORK, RESTRICTED, Podman, empty_dir, environment_options, lacks
from tests.images.trial.steps import BUCKET, Steps
from tests.manifests.test_create_secrets import create, secrets_in
from tests.manifests.test_mlflow_server import command_of, environment_of, pod

ROOT = Path(__file__).parents[3]
UV = str(ROOT / ".uv" / "bin" / "uv")
CPU, TRAIN = "localhost/kfrec-trial-cpu", "localhost/kfrec-trial-train"
MLFLOW, ANCHOR = "kfrec-trial-mlflow", "kfrec-trial-anchor"
EPOCHS = 6
VALUES = {
    "synthetic_users": 400, "synthetic_items": 300, "embedding_dim": 4, "global_batch_size": 512,
    "max_sequence_length": 30, "epochs": EPOCHS, "patience": 0, "checkpoint_steps": 5, "train_seed": 7,
    "workers": 2, "gpus_per_worker": 0, "auc_floor": 0.3, "bootstrap_samples": 100,
    "require_baseline": False,
}  # fmt: skip
_AGAIN = """
from mlflow import MlflowClient
version = MlflowClient().get_model_version_by_alias("kfrec-ctr", "champion")
print("champion is version", version.version)
"""


def main() -> int:
    lacking = lacks() or ("" if programs() else "no PostgreSQL; on Debian: apt-get install postgresql")
    if lacking:
        print(f"images-test skipped: {lacking}")
        return 0
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # moto tells of each request
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kfrec-trial-")))
        podman = _built()
        Trial(stack, podman, folder).run()
    print("all images did what they are for")
    return 0


@contextmanager
def timed(what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:6.0f} s  {what}", flush=True)


def _built() -> Podman:
    made = load_images()
    if not bases.exists(bases.CPU):
        with timed("base of the cpu image"):
            bases.make_cpu_base()
    podman = Podman(bases.CPU)
    if not bases.exists(bases.TRAIN):
        with timed("base of the train image"):
            bases.make_train_base(made["train"], UV)
    for name, base, tag in (("cpu", bases.CPU, CPU), ("train", bases.TRAIN, TRAIN)):
        with timed(f"build of the {name} image"):
            _build(podman, made[name], base, tag)
    return podman


def _build(podman: Podman, made: Image, base: str, tag: str) -> None:
    REQUIREMENTS.mkdir(parents=True, exist_ok=True)
    exported = subprocess.run(made.export_command(UV), cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (REQUIREMENTS / f"{made.name}.txt").write_text(exported)
    podman.build(f"images/{made.name}/Dockerfile", tag, {"BASE": base, "IMPORTS": " ".join(made.imports)}, ROOT)


class Trial:
    """One run of the training pipeline in containers.

    Args:
        stack: closes what was started.
        podman: runs the containers.
        folder: for everything that is written.
    """

    def __init__(self, stack: ExitStack, podman: Podman, folder: Path) -> None:
        self._stack, self._podman, self._folder = stack, podman, folder
        address = podman.gateway()
        stack.callback(podman.remove, MLFLOW, ANCHOR)
        podman.remove(MLFLOW, ANCHOR)
        # This machine has the network's address for as long as a container is there.
        options = [f"--name={ANCHOR}", f"--network={NETWORK}", "--detach"]
        subprocess.run(podman.command(bases.CPU, ["sleep", "infinity"], options), check=True, capture_output=True)
        server = ThreadedMotoServer(address, 0, verbose=False)
        server.start()
        stack.callback(server.stop)
        host, port = server.get_host_and_port()
        self._store = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test",
                       "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}  # fmt: skip
        self._s3 = boto3.client(
            "s3", endpoint_url=self._store["AWS_ENDPOINT_URL"], aws_access_key_id="test", aws_secret_access_key="test",
            region_name="us-east-1",
        )  # fmt: skip
        self._s3.create_bucket(Bucket=BUCKET)
        binaries = programs()
        assert binaries is not None
        database = stack.enter_context(running_postgres(binaries, address))
        self._secrets = secrets_in(folder)
        assert create(self._secrets, DATABASE_URI=database).returncode == 0
        _write(self._secrets / "kfrec-object-store", self._store)
        config = {
            "MLFLOW_TRACKING_URI": "http://kfrec-mlflow:5000",
            "MLFLOW_ARTIFACTS_DESTINATION": f"s3://{BUCKET}/mlflow",
        }
        self._config = _write(folder / "kfrec-config", config)
        self._api = KubernetesApi()
        url = stack.enter_context(self._api.served(address))
        write_kubeconfig(folder / "kubeconfig", url)
        self._operator = stack.enter_context(Operator(self._api, podman, folder / "pods", self._store))
        self._mounted = {
            self._secrets / "kfrec-mlflow": "/etc/kfrec/mlflow",
            self._secrets / "kfrec-object-store": "/etc/kfrec/object-store",
            self._config: "/etc/kfrec/config",
        }
        spec = next(yaml.safe_load_all(compiled(Pipeline(TRAINING, "din"), load_settings())))
        self._steps = Steps(spec, VALUES, self._s3, podman, folder / "steps")

    def run(self) -> None:
        with timed("MLflow on PostgreSQL: migration and start"):
            self._start_mlflow(migrate=True)
        with timed("step download"):
            self._step("download")
        with timed("step preprocess, in this environment"):
            self._preprocess()
        with timed("step tfrecord"):
            self._step("tfrecord")
        with timed("step train: two ranks over ssh, one of which is lost"):
            self._train()
        with timed("step evaluate"):
            self._step("evaluate")
        with timed("step register"):
            self._step("register")
        with timed("MLflow, started again"):
            self._podman.remove(MLFLOW)
            self._start_mlflow(migrate=False)
            told = self._client(_AGAIN)
            assert "champion is version 1" in told, told

    def _start_mlflow(self, migrate: bool) -> None:
        spec = pod()
        config = {file.name: file.read_text() for file in self._config.iterdir()}
        (server,) = spec["containers"]
        options = [f"--network={NETWORK}", *RESTRICTED]
        accounts = f"--volume={self._secrets / 'kfrec-mlflow-server'}:/etc/mlflow:ro"
        for container in spec["initContainers"] if migrate else ():
            environment = environment_of(container, self._secrets, config)
            volumes = [f"--volume={empty_dir(self._folder / container['name'])}:/tmp", accounts]
            given = [*options, *volumes, *environment_options(environment)]
            done = self._podman.try_run(CPU, *command_of(container, environment), options=given)
            assert done.returncode == 0, done.stderr
        environment = environment_of(server, self._secrets, config) | self._store
        volumes = [
            f"--volume={empty_dir(self._folder / f'mlflow-{time.monotonic_ns()}')}:/tmp",
            accounts,
        ]
        named = [f"--name={MLFLOW}", "--network-alias=kfrec-mlflow", "--detach"]
        given = [*named, *options, *volumes, *environment_options(environment)]
        subprocess.run(
            self._podman.command(CPU, command_of(server, environment), given), check=True, capture_output=True
        )
        health = "import urllib.request as r; print(r.urlopen('http://kfrec-mlflow:5000/health', timeout=5).read())"
        until = time.monotonic() + 180
        while True:
            asked = self._podman.try_run(bases.CPU, "python", "-c", health, options=[f"--network={NETWORK}"])
            if asked.returncode == 0:
                return
            if time.monotonic() > until:
                raise RuntimeError(f"MLflow does not answer: {asked.stderr}{self._podman.call('logs', MLFLOW)}")
            time.sleep(1)

    def _client(self, program: str) -> str:
        """What a program says that uses the server as a step does."""
        account = {file.name: file.read_text() for file in (self._secrets / "kfrec-mlflow").iterdir()}
        environment = environment_options(account | {"MLFLOW_TRACKING_URI": "http://kfrec-mlflow:5000"})
        tmp = f"--volume={empty_dir(self._folder / 'client')}:/tmp"
        options = [f"--network={NETWORK}", *RESTRICTED, tmp, *environment]
        done = self._podman.try_run(CPU, "python", "-c", program, options=options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _step(self, task: str, **environment: str) -> str:
        return self._steps.run(task, CPU, self._mounted, **environment)

    def _preprocess(self) -> None:
        place = empty_dir(self._folder / "preprocess")
        raw = self._steps.download(self._steps.uri("download", "raw"), place)
        parquet = place / BUCKET / self._steps.uri("preprocess", "parquet").removeprefix(f"s3://{BUCKET}/")
        parquet.parent.mkdir(parents=True)
        known = self._steps.executor_input("preprocess")["inputs"]["parameterValues"]
        given = [f"--{name}={_text(value)}" for name, value in known.items() if value not in ("", None)]
        command = [sys.executable, "-m", "components.preprocess", f"--raw={raw}", f"--parquet={parquet}", *given]
        done = subprocess.run(command, cwd=ROOT, env=os.environ | self._store, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self._steps.upload(place)

    def _train(self) -> None:
        settings = {
            "image": TRAIN, "namespace": NAMESPACE, "environment": {"AWS_DEFAULT_REGION": "us-east-1"},
            "secret_environment": {"kfrec-object-store": [name for name in self._store if "REGION" not in name]},
        }  # fmt: skip
        job = self._folder / "kfrec-mpijob"
        job.mkdir()
        (job / "mpijob.yaml").write_text(yaml.safe_dump(settings))
        self._mounted |= {job: "/etc/kfrec/job", self._folder / "kubeconfig": "/kubeconfig"}
        lost: list[str] = []
        killer = threading.Thread(target=self._lose_a_worker, args=(lost,), daemon=True)
        killer.start()
        pod_of_step = {"POD_NAME": "train", "POD_UID": "uid-of-train", "POD_NAMESPACE": NAMESPACE}
        try:
            told = self._step("train", KUBECONFIG="/kubeconfig", **pod_of_step)
        except RuntimeError:
            for name, lines in self._api.logs.items():
                print(f"--- {name}", *lines[-40:], sep="\n")
            print(*self._operator.trouble, sep="\n")
            raise
        assert lost and lost[0] in told, told
        (made,) = self._api.jobs.values()
        assert made["metadata"]["name"].endswith("-2"), made["metadata"]["name"]
        assert "resumes from the newest checkpoint" in told, told
        model = open_artifact(
            self._steps.download(self._steps.uri("train", "model"), empty_dir(self._folder / "model"))
        )
        trained = json.loads((model.path / "training.json").read_text())
        assert trained["workers"] == 2 and len(trained["epochs"]) == EPOCHS, trained

    def _lose_a_worker(self, lost: list[str]) -> None:
        """Takes a worker away for good as soon as there is something to go on from."""
        prefix = data_uri(self._steps.uri("train", "model")).removeprefix(f"s3://{BUCKET}/")
        while not lost:
            found = self._s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
            if any("checkpoint" in entry["Key"] for entry in found) and (jobs := self._api.live_jobs()):
                lost.append(jobs[0])
                self._operator.lose(f"{jobs[0]}-worker-1")
            time.sleep(0.2)


def _write(folder: Path, values: dict[str, str]) -> Path:
    """A config map or secret as a volume: a file a key."""
    folder.mkdir()
    for name, value in values.items():
        (folder / name).write_text(value)
    return folder


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).lower()


if __name__ == "__main__":
    sys.exit(main())
