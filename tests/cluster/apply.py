"""Applies what a node has beside its servers: ``python -m tests.cluster.apply MPI_OPERATOR_MANIFESTS KUEUE_MANIFESTS``.

Services of servers that run on the node itself, volumes, mpi-operator's definitions and rights, and what KFP brings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.servers import ADDRESS, DNS, KEYS, NODE, STORE_PORT
from tests.waiting import LONGEST

Json = dict[str, Any]
VOLUMES = 8
KUEUE_FOLDER = "kueue"
"""A kustomization in the node's folder, which a test applies."""


def main(operator: Path, kueue: Path) -> None:
    folder = Path(os.environ["KFREC_CLUSTER_NODE"])
    _await(["kubectl", "get", "--raw", "/readyz"])
    with_operator = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "mpi-operator",
        "resources": [str(path) for path in sorted(operator.glob("*.yaml")) if _of_the_cluster(path)],
    }
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mpi-operator"}},
        *_services(),
        *_volumes(folder),
    ]
    _apply(yaml.safe_dump_all(objects))
    _apply((Path(__file__).parent / "kfp.yaml").read_text())
    key, secret = KEYS.values()
    metadata = {"name": "mlpipeline-minio-artifact", "namespace": "kubeflow"}
    keys = {"accesskey": key, "secretkey": secret}
    kfp = {"kind": "Secret", "apiVersion": "v1", "metadata": metadata, "stringData": keys}
    _apply(yaml.safe_dump_all([kfp, *at_the_node("seaweedfs", "kubeflow", STORE_PORT)]))
    made = folder / "mpi-operator"
    made.mkdir(exist_ok=True)
    for path in with_operator["resources"]:
        (made / Path(path).name).write_bytes(Path(path).read_bytes())
    with_operator["resources"] = [Path(path).name for path in with_operator["resources"]]
    (made / "kustomization.yaml").write_text(yaml.safe_dump(with_operator))
    subprocess.run(["kubectl", "apply", "--server-side", "-k", str(made)], check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(kueue, folder / KUEUE_FOLDER)
    shutil.copy(Path(__file__).with_name("kueue.yaml"), folder / KUEUE_FOLDER / "kustomization.yaml")
    _await(["kubectl", "wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=5s"])
    _await(["kubectl", "-n", "kubeflow", "get", "serviceaccount", "default"])


def at_the_node(name: str, namespace: str, port: int, **spec: Any) -> list[Json]:
    """A Service of a server that runs on the node itself, and its endpoints."""
    metadata = {"name": name, "namespace": namespace}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": _ports(port), **spec}}
    slices = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": name}},
        "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}], "ports": _ports(port),
    }  # fmt: skip
    return [service, slices]


def _ports(port: int) -> list[Json]:
    protocols = ("UDP", "TCP") if port == 53 else ("TCP",)
    return [{"name": protocol.lower(), "port": port, "protocol": protocol} for protocol in protocols]


def _services() -> list[Json]:
    return at_the_node("kube-dns", "kube-system", 53, clusterIP=DNS)


def _volumes(folder: Path) -> list[Json]:
    """Volumes for claims without a class; each is bound once."""
    made = []
    for index in range(VOLUMES):
        place = folder / "volumes" / str(index)
        place.mkdir(parents=True)
        place.chmod(0o777)
        spec = {
            "capacity": {"storage": "1Ti"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": str(place)},
        }  # fmt: skip
        made.append(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"volume-{index}"}, "spec": spec}
        )
    return made


def _of_the_cluster(path: Path) -> bool:
    """The operator itself runs on the node."""
    return path.stem not in ("kustomization", "deployment")


def _apply(text: str) -> None:
    done = subprocess.run(["kubectl", "apply", "-f", "-"], input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)


def _await(command: list[str]) -> None:
    until = time.monotonic() + LONGEST
    while (done := subprocess.run(command, capture_output=True, text=True)).returncode:
        if time.monotonic() > until:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        time.sleep(0.5)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
