"""A cluster where kfrec is installed and nothing is missing, for tests that take something away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
import requests
import yaml

from components.images import VERSION
from pipelines.cli import main
from tests.fakes.kfp_api import KfpApi
from tests.fakes.kubernetes_api import KubernetesApi, write_kubeconfig
from tests.fakes.kubernetes_objects import KubernetesObjects
from tests.fakes.mlflow_server import MlflowServer

REGISTRY = "registry.team.org/ads"
_OF_THE_ENVIRONMENT = ("MLFLOW_", "AWS_", "KFP_", "KF_", "KFREC_REGISTRY", "KUBERNETES_")


@dataclass(frozen=True)
class Told:
    """What kfrec doctor said.

    Attributes:
        status: its exit status.
        lines: state, subject and the rest of each line.
        said: all of it.
    """

    status: int
    lines: list[tuple[str, str, str]]
    said: str

    def of(self, subject: str) -> list[tuple[str, str]]:
        """State and text of the lines about a subject."""
        return [(state, text) for state, about, text in self.lines if about == subject]

    def not_ok(self) -> list[tuple[str, str, str]]:
        return [found for found in self.lines if found[0] != "ok"]


@dataclass
class Installation:
    """A cluster and how to look at it."""

    api: KubernetesApi
    kfp: KfpApi
    store: str
    capture: pytest.CaptureFixture[str]

    @property
    def objects(self) -> KubernetesObjects:
        return self.api.objects

    def settings_of_jobs(self, **settings: object) -> None:
        whole = {"image": f"{REGISTRY}/kfrec-train:{VERSION}", **settings}
        self.objects.put("configmaps", "kfrec-mpijob", data={"mpijob.yaml": yaml.safe_dump(whole)})

    def add_settings_of_jobs(self, name: str, text: str) -> None:
        """Adds a file to the settings of jobs, as a component of the installation does."""
        self.objects.core["configmaps", "kubeflow", "kfrec-mpijob"]["data"][name] = text

    def configure(self, **values: str) -> None:
        """Changes the config map kfrec-config; an empty value takes the key out."""
        held = self.objects.core["configmaps", "kubeflow", "kfrec-config"]["data"]
        held.update(values)
        for name in [name for name, value in held.items() if not value]:
            del held[name]

    def doctor(self, *words: str) -> Told:
        return doctor(self.capture, "--cluster", *words)


def doctor(capture: pytest.CaptureFixture[str], *words: str) -> Told:
    """Runs ``kfrec doctor`` in this process."""
    capture.readouterr()
    status = main(["doctor", *words])
    said = capture.readouterr()
    assert said.err == ""
    lines = [(line[:7].strip(), line[9:22].strip(), line[24:]) for line in said.out.partition("\n\n")[0].splitlines()]
    assert {state for state, _, _ in lines} <= {"ok", "missing", "note"}, said.out
    assert all(subject and text for _, subject, text in lines), said.out
    return Told(status, lines, said.out)


@contextmanager
def installed(
    folder: Path, store: str, mlflow: MlflowServer, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]
) -> Iterator[Installation]:
    """A complete installation; this process's environment says nothing of it but where its Kubernetes API is."""
    import os

    for name in [name for name in os.environ if name.startswith(_OF_THE_ENVIRONMENT)]:
        patch.delenv(name)
    patch.setenv("HOME", str(folder))
    patch.chdir(folder)
    requests.post(f"{store}/moto-api/reset", timeout=10)
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=store, **keys).create_bucket(Bucket="mlpipeline")
    here = Installation(KubernetesApi(), KfpApi(), store, capture)
    with here.api.served() as kubernetes, here.kfp.served() as kfp:
        patch.setenv("KUBECONFIG", str(write_kubeconfig(folder / "kubeconfig", kubernetes)))
        objects = here.objects
        objects.define("mpijobs", "kubeflow.org", "v2beta1")
        objects.put("configmaps", "kfrec-config", data={
            "MLFLOW_TRACKING_URI": mlflow.uri, "KFP_ENDPOINT": kfp, "KFREC_REGISTRY": REGISTRY,
            "AWS_ENDPOINT_URL": store, "AWS_DEFAULT_REGION": "us-east-1",
            "MLFLOW_ARTIFACTS_DESTINATION": "s3://mlpipeline/mlflow", "KFREC_LOGS": "s3://mlpipeline/logs",
        })  # fmt: skip
        here.settings_of_jobs()
        account = {name: mlflow.environment[f"MLFLOW_TRACKING_{name}"] for name in ("USERNAME", "PASSWORD")}
        objects.put("secrets", "kfrec-mlflow", data={f"MLFLOW_TRACKING_{name}": v for name, v in account.items()})
        objects.put(
            "secrets", "kfrec-object-store", data={"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        )
        objects.put("secrets", "mlpipeline-minio-artifact", data={"accesskey": "a", "secretkey": "b"})
        objects.put("serviceaccounts", "kfrec-pipeline")
        objects.put("serviceaccounts", "kfrec-worker")
        objects.nodes = [
            {"metadata": {"name": "gpu"}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}},
            {"metadata": {"name": "cpu"}, "status": {"allocatable": {"cpu": "8"}}},
        ]
        yield here
