"""Runs kfrec on real servers: ``python -m tests.cluster [PYTEST ARGUMENT ...]``.

Without KUBECONFIG it starts a one-node cluster of its own and removes it afterwards. With KUBECONFIG the suite runs on
that cluster, whose registry (KFREC_REGISTRY) has the images of ``make images``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.build import CACHE, build
from tests.cluster.images import image_store
from tests.cluster.isolation import ROOT, isolated, lacks_isolation, left_behind
from tests.cluster.test_killed import WARM
from tests.waiting import wait_for

SUITE = Path(__file__).parent / "suite"
_PROGRAMS = {
    "go": "golang", "containerd": "containerd", "runc": "runc", "podman": "podman", "debootstrap": "debootstrap",
    "iptables": "iptables", "conntrack": "conntrack", "unshare": "util-linux",
}  # fmt: skip
_OLDEST_GO = (1, 21)


def main(arguments: list[str]) -> int:
    if os.environ.get("KUBECONFIG"):
        return subprocess.run(_tests(arguments), cwd=ROOT).returncode
    if lacking := lacks():
        print(f"cluster-test skipped: {lacking}")
        return 0
    # As Ctrl-C: what was begun is ended in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with timed("build of the servers' programs"):
        programs = build()
    with timed("build of the images"):
        store = image_store(programs)
    folder = CACHE / "node"
    named = [f"{name}={place}" for name, place in programs.items()]
    with isolated(folder, sys.executable, "-m", "tests.cluster.node", str(folder), str(store), *named) as node:
        with timed("start of the node"):
            wait_for(lambda: (folder / "started").exists() or node.process.poll() is not None)
            if node.process.poll() is not None:
                raise RuntimeError("the node ended at its start")
            environment = os.environ | {"KUBECONFIG": str(folder / "certificates" / "admin.kubeconfig")}
            environment |= {"KFREC_CLUSTER_NODE": str(folder), "PATH": f"{programs['kubernetes']}:{os.environ['PATH']}"}
            manifests = [str(programs[name] / "manifests") for name in ("mpi-operator", "kueue")]
            prepared = node.enter(sys.executable, "-m", "tests.cluster.apply", *manifests)
            subprocess.run(prepared, cwd=ROOT, env=environment, check=True)
        status = subprocess.run(node.enter(*_tests(arguments)), cwd=ROOT, env=environment).returncode
        if status and not arguments:
            # A test that fails beside the other group is tried once more, alone.
            again = [sys.executable, "-m", "pytest", "--last-failed", "--last-failed-no-failures=none", str(SUITE)]
            status = subprocess.run(node.enter(*again), cwd=ROOT, env=environment).returncode
    assert not (left := left_behind(folder)), left
    if status or arguments:
        return status
    killed = [sys.executable, "-m", "pytest", "-q", str(Path(__file__).with_name("test_killed.py"))]
    return subprocess.run(killed, cwd=ROOT, env=os.environ | {WARM: "1"}).returncode


def lacks() -> str:
    """What this machine lacks for a node; empty where it lacks nothing."""
    if told := lacks_isolation():
        return told
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in _PROGRAMS if shutil.which(name, path=path) is None]
    if not Path("/usr/lib/cni/ptp").exists():
        missing.append("containernetworking-plugins")
    if "go" not in missing and _go_version() < _OLDEST_GO:
        return f"Go is older than {'.'.join(map(str, _OLDEST_GO))}, which brings the version that a module needs"
    if missing:
        packages = " ".join(_PROGRAMS.get(name, name) for name in missing)
        return f"no {', '.join(missing)}; on Debian: apt-get install {packages}"
    return ""


def _go_version() -> tuple[int, ...]:
    told = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout
    return tuple(int(number) for number in re.findall(r"\d+", told)[:2])


@contextmanager
def timed(what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:6.0f} s  {what}", flush=True)


def _tests(arguments: list[str]) -> list[str]:
    """The command line of the suite; arguments after `--` are another command, for a look at the cluster."""
    if arguments[:1] == ["--"]:
        return arguments[1:]
    # On a node of its own two groups of tests run beside each other: much of both is waiting.
    groups = [] if os.environ.get("KUBECONFIG") else ["-n2"]
    return [sys.executable, "-m", "pytest", "--durations=0", *groups, *(arguments or [str(SUITE)])]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
