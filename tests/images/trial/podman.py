"""Containers by podman, as a node would run them: options that this machine's kernel takes, and pods' own settings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]
USER = 1000
NETWORK = "kfrec-trial"
# Those of a restricted pod; only declared volumes can be written.
RESTRICTED = (
    f"--user={USER}:{USER}", "--read-only", "--read-only-tmpfs=false", "--cap-drop=all",
    "--security-opt=no-new-privileges",
)  # fmt: skip


def lacks() -> str:
    """What this machine lacks for containers, in words; empty where it lacks nothing."""
    programs = [name for name in ("podman", "debootstrap", "iptables", "ssh-keygen") if shutil.which(name) is None]
    if programs:
        packages = "podman runc netavark aardvark-dns iptables debootstrap"
        return f"no {', '.join(programs)}; on Debian: apt-get install {packages}"
    return "" if os.getuid() == 0 else "bases are made by debootstrap, which needs root"


class Podman:
    """The podman of this machine.

    Args:
        probe: an image with ``true``, which tells whether containers start.

    Raises:
        RuntimeError: no container starts; the message has each runtime's reason.
    """

    def __init__(self, probe: str) -> None:
        # podman asks for more than a machine may give that is a container itself.
        self._limits = ["--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]
        reasons = []
        for runtime in ([], ["--runtime", "crun"], ["--runtime", "runc"]):
            self._podman = ["podman", *runtime]
            done = self.try_run(probe, "true", options=["--network=host"])
            if done.returncode == 0:
                return
            reasons.append(" ".join(done.stderr.split()))
        raise RuntimeError("; ".join(reasons))

    def call(self, *arguments: str) -> str:
        """Runs a podman command and returns what it says."""
        done = subprocess.run([*self._podman, *arguments], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"podman {' '.join(arguments[:3])}: {done.stdout[-4000:]}{done.stderr[-4000:]}")
        return done.stdout.strip()

    def build(self, dockerfile: str, tag: str, values: Mapping[str, str], folder: Path) -> None:
        given = [f"--build-arg={name}={value}" for name, value in values.items()]
        self.call("build", "--network=host", *self._limits, "-f", dockerfile, "-t", tag, *given, str(folder))

    def command(self, image: str, command: Sequence[str], options: Sequence[str] = (), start: str = "run") -> list[str]:
        """The command line that runs a container as Kubernetes does: ``command`` takes the place of the entry point."""
        entry = ["--entrypoint", json.dumps(list(command[:1])), *options]
        return [*self._podman, start, *self._limits, *entry, image, *command[1:]]

    def try_run(self, image: str, *command: str, options: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(image, command, ["--rm", *options]), capture_output=True, text=True)

    def remove(self, *names: str) -> None:
        for name in names:
            subprocess.run([*self._podman, "rm", "--force", "--time=0", "--ignore", name], capture_output=True)

    def address(self, name: str) -> str:
        """Where a container is on the network of this trial."""
        return self.call(
            "inspect", "--format", f'{{{{(index .NetworkSettings.Networks "{NETWORK}").IPAddress}}}}', name
        )

    def gateway(self) -> str:
        """This machine, as containers of the trial's network see it."""
        if subprocess.run([*self._podman, "network", "exists", NETWORK]).returncode:
            self.call("network", "create", NETWORK)
        (network,) = json.loads(self.call("network", "inspect", NETWORK))
        return str(network["subnets"][0]["gateway"])


def environment_options(environment: Mapping[str, str]) -> list[str]:
    return [f"--env={name}={value}" for name, value in environment.items()]


def empty_dir(folder: Path) -> Path:
    """A volume as the kubelet makes it for a pod with an fsGroup."""
    folder.mkdir(parents=True)
    os.chown(folder, 0, USER)
    folder.chmod(0o2777)
    return folder
