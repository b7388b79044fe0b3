"""Runs the servers of a test cluster: ``python -m tests.cluster.node FOLDER IMAGES MODULE=PROGRAMS ...``.

A server that ends is started again, as a node's own supervisor does. Each server's process id is in a file of its name
below ``pids``, so that a test can stop one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster.images import copy_store
from tests.cluster.servers import ADDRESS, NODE, servers

_NETWORK = f"""
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mount -t tmpfs tmpfs /var/lib
hostname {NODE}
ip link set lo up
ip link add {NODE}0 type veth peer name {NODE}1
ip addr add {ADDRESS}/24 dev {NODE}0
ip link set {NODE}0 up
ip link set {NODE}1 up
ip route add default via 10.10.0.254
sysctl -qw net.ipv4.ip_forward=1
"""
_RESTART_SECONDS = 1.0


def main(folder: Path, images: Path, programs: dict[str, Path]) -> None:
    # What Debian's programs keep in /run, /var/log and /var/lib is the node's own and goes with it.
    subprocess.run(["sh", "-ec", _NETWORK], check=True)
    for name in ("logs", "pids", "output"):
        (folder / name).mkdir()
    copy_store(images, folder / "containerd")
    os.environ["PATH"] = f"{programs['kubernetes']}:{os.environ['PATH']}:/usr/sbin:/sbin"
    made = servers(folder, programs)
    processes = {name: _started(folder, name, command) for name, command in made.items()}
    (folder / "started").touch()
    while True:
        time.sleep(_RESTART_SECONDS)
        for name, process in processes.items():
            if process.poll() is not None:
                processes[name] = _started(folder, name, made[name])


def _started(folder: Path, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    with (folder / "output" / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    unfinished = folder / "pids" / f"{name}.unfinished"
    unfinished.write_text(str(process.pid))
    unfinished.rename(folder / "pids" / name)  # a test may be reading it
    return process


if __name__ == "__main__":
    _, node, store, *words = sys.argv
    main(Path(node), Path(store), {name: Path(place) for name, place in (word.split("=") for word in words)})
