"""The servers of a one-node cluster: their command lines and configuration files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.cluster.certificates import Authority
from tests.cluster.containerd import write_config
from tests.cluster.images import PAUSE
from tests.cluster.isolation import cgroup_name

ADDRESS, NODE = "10.10.0.1", "node"
SERVICES, PODS = "10.96.0.0/16", "10.244.0.0/16"
DNS = "10.96.0.10"
API = f"https://{ADDRESS}:6443"
KEYS = {"AWS_ACCESS_KEY_ID": "kfrec", "AWS_SECRET_ACCESS_KEY": "of-the-test-store"}
STORE_PORT = 9000
OPERATOR = "system:serviceaccount:mpi-operator:mpi-operator"
_SOCKET = "containerd.sock"


def socket(folder: Path) -> Path:
    """Where a node's containerd listens."""
    return folder / _SOCKET


def servers(folder: Path, programs: Mapping[str, Path]) -> dict[str, list[str]]:
    """The command lines of a node's servers by name, in the order of their start.

    Args:
        folder: of the node.
        programs: modules' names to folders with their programs.
    """
    authority = Authority(folder / "certificates")
    user = authority.kubeconfig("operator", API, OPERATOR, ("system:serviceaccounts", "system:authenticated"))
    operator = programs["mpi-operator"] / "mpi-operator"
    return {
        **_control(folder, programs, authority),
        **_node(folder, programs["kubernetes"], authority),
        "coredns": _dns(folder, programs["coredns"], authority),
        "seaweedfs": _store(folder, programs["seaweedfs"]),
        "mpi-operator": [str(operator), "--lock-namespace=mpi-operator", f"--kubeConfig={user}"],
    }


def _control(folder: Path, programs: Mapping[str, Path], authority: Authority) -> dict[str, list[str]]:
    kubernetes, hosts = programs["kubernetes"], [ADDRESS, "10.96.0.1", "127.0.0.1", "kubernetes.default.svc"]
    serving, client = authority.certificate("api", "api", hosts=hosts), authority.certificate(
        "api-client", "kube-apiserver", ("system:masters",)
    )  # fmt: skip
    accounts = authority.certificate("accounts", "accounts")
    authority.kubeconfig("admin", API, "admin", ("system:masters",))
    etcd = [
        str(programs["etcd"] / "etcd"), f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn",
        "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        "--initial-cluster=default=http://127.0.0.1:2380",
    ]  # fmt: skip
    api = [
        str(kubernetes / "kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", f"--bind-address={ADDRESS}",
        f"--advertise-address={ADDRESS}", "--secure-port=6443", f"--service-cluster-ip-range={SERVICES}",
        f"--tls-cert-file={serving}", f"--tls-private-key-file={_key(serving)}", f"--client-ca-file={authority.file}",
        f"--kubelet-client-certificate={client}", f"--kubelet-client-key={_key(client)}",
        f"--kubelet-certificate-authority={authority.file}", "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={accounts.with_suffix('.key')}", "--allow-privileged=true",
        f"--service-account-signing-key-file={accounts.with_suffix('.key')}", "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--enable-admission-plugins=NodeRestriction",
    ]  # fmt: skip
    manager = [
        str(kubernetes / "kube-controller-manager"), "--leader-elect=false", "--use-service-account-credentials",
        "--node-monitor-grace-period=20s",
        f"--kubeconfig={authority.kubeconfig('manager', API, 'system:kube-controller-manager')}",
        "--allocate-node-cidrs", f"--cluster-cidr={PODS}", f"--root-ca-file={authority.file}",
        f"--service-account-private-key-file={_key(accounts)}",
    ]  # fmt: skip
    scheduler = [
        str(kubernetes / "kube-scheduler"), "--leader-elect=false",
        f"--kubeconfig={authority.kubeconfig('scheduler', API, 'system:kube-scheduler')}",
    ]  # fmt: skip
    return {"etcd": etcd, "kube-apiserver": api, "kube-controller-manager": manager, "kube-scheduler": scheduler}


def _node(folder: Path, kubernetes: Path, authority: Authority) -> dict[str, list[str]]:
    own = authority.kubeconfig("node", API, f"system:node:{NODE}", ("system:nodes",))
    serving = authority.certificate("kubelet", NODE, hosts=(NODE, ADDRESS))
    (folder / "resolv.conf").write_text("")
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(authority.file)}},
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup_name(folder)}",
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{socket(folder)}",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "100Mi", "imagefs.available": "100Mi"},
        "failCgroupV1": False,
        "failSwapOn": False,
        # An idle node's kubelet removes the pause image otherwise.
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": True,
        "maxOpenFiles": 20000,
        "oomScoreAdj": 0,
        "podLogsDir": str(folder / "logs"),
        "resolvConf": str(folder / "resolv.conf"),
        "tlsCertFile": str(serving),
        "tlsPrivateKeyFile": str(_key(serving)),
    }
    _write(folder / "kubelet.yaml", yaml.safe_dump(kubelet))
    # Pods reach each other through the node's routing, so addresses of services work without a bridge's netfilter.
    network = {
        "cniVersion": "0.3.1", "name": "pods",
        "plugins": [{
            "type": "ptp",
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]},
        }],
    }  # fmt: skip
    (folder / "cni").mkdir()
    _write(folder / "cni" / "pods.conflist", json.dumps(network))
    write_config(folder / "containerd.toml", folder / "containerd", socket(folder), PAUSE)
    started = [
        str(kubernetes / "kubelet"), f"--config={folder / 'kubelet.yaml'}", f"--kubeconfig={own}",
        f"--root-dir={folder / 'kubelet'}", f"--hostname-override={NODE}", f"--node-ip={ADDRESS}",
    ]  # fmt: skip
    proxy = [
        str(kubernetes / "kube-proxy"), "--proxy-mode=iptables", f"--cluster-cidr={PODS}",
        f"--hostname-override={NODE}", "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
        f"--kubeconfig={authority.kubeconfig('proxy', API, 'system:kube-proxy')}",
    ]  # fmt: skip
    runtime = ["containerd", "--config", str(folder / "containerd.toml")]
    return {"containerd": runtime, "kubelet": started, "kube-proxy": proxy}


def _dns(folder: Path, coredns: Path, authority: Authority) -> list[str]:
    own = authority.kubeconfig("dns", API, "system:dns", ("system:masters",))
    blocks = f"bind {ADDRESS}\n errors\n kubernetes cluster.local {{\n kubeconfig {own}\n }}\n"
    _write(folder / "Corefile", f".:53 {{\n {blocks}}}\n")
    return [str(coredns / "coredns"), "-conf", str(folder / "Corefile")]


def _store(folder: Path, seaweedfs: Path) -> list[str]:
    allowed = ["Admin", "Read", "Write", "List", "Tagging"]
    key, secret = KEYS.values()
    identities = [{"name": "kfrec", "credentials": [{"accessKey": key, "secretKey": secret}], "actions": allowed}]
    _write(folder / "store.json", json.dumps({"identities": identities}))
    (folder / "store").mkdir()
    return [
        str(seaweedfs / "seaweedfs"), "server", f"-dir={folder / 'store'}", f"-ip={ADDRESS}", "-s3", "-filer",
        f"-s3.port={STORE_PORT}", f"-s3.config={folder / 'store.json'}", "-master.volumeSizeLimitMB=256",
        "-volume.max=100", "-s3.port.iceberg=0",
        # Its defaults are those of mpi-operator's health and of KFP's API.
        "-volume.port=9340", "-filer.port=9350",
    ]  # fmt: skip


def _key(certificate: Path) -> Path:
    return certificate.with_suffix(".key")


def _write(file: Path, text: str) -> None:
    file.write_text(text)
