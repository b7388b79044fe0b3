"""The train image's sshd, with its own configuration: what its sessions have of the image's environment."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from components.train.launching.transports import mpi_environment
from tests.fakes.handler import free_port

TRAIN = Path(__file__).parents[2] / "images" / "train"
SSHD = shutil.which("sshd", path=f"/usr/sbin:{os.environ['PATH']}")
_WAIT_SECONDS = 30


@dataclass(frozen=True)
class Worker:
    """A worker's sshd.

    Attributes:
        ssh: the command that reaches it, up to the host.
        environment: of the image.
    """

    ssh: list[str]
    environment: dict[str, str]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.ssh, "127.0.0.2", *command], env=self.environment, capture_output=True, text=True, timeout=60
        )


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    if SSHD is None:
        pytest.skip("no sshd here; on Debian: apt-get install openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    port, key = free_port(), tmp_path / "id_rsa"
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(key)], check=True)
    shutil.copy(key.with_suffix(".pub"), tmp_path / "authorized_keys")
    # An image whose Open MPI lies where no shell looks for it.
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        **mpi_environment(sys.prefix),
    }
    written = subprocess.run(["sh", str(TRAIN / "ssh_environment")], env=environment, capture_output=True, text=True)
    config = (TRAIN / "sshd_config").read_text() + written.stdout
    # Another place, another user, and root where the tests run as root.
    for theirs, ours in {
        "Port 2222": f"Port {port}\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3",
        "/home/mpiuser/.ssh": str(tmp_path),
        "/tmp/sshd.pid": str(tmp_path / "pid"),
        "AllowUsers mpiuser": f"AllowUsers {getpass.getuser()}",
        "PermitRootLogin no": "PermitRootLogin yes",
    }.items():
        assert theirs in config
        config = config.replace(theirs, ours)
    (tmp_path / "sshd_config").write_text(config)
    log = tmp_path / "log"
    command = [SSHD, "-De", "-f", str(tmp_path / "sshd_config"), "-E", str(log)]
    server = subprocess.Popen(command, env=environment)
    try:
        _wait(port, server, log)
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "BatchMode=yes"]
        words = [word for option in options for word in ("-o", option)]
        yield Worker(["ssh", "-F", "none", "-p", str(port), "-i", str(key), *words], environment)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        assert server.poll() is None and time.monotonic() < until, log.read_text()
        try:
            socket.create_connection(("127.0.0.2", port), 5).close()
            return
        except OSError:
            time.sleep(0.1)


def test_a_session_has_what_open_mpi_needs_of_the_image(worker: Worker) -> None:
    given = dict(line.partition("=")[::2] for line in worker.run("env").stdout.splitlines())
    for name in ("PATH", "LD_LIBRARY_PATH", "OPAL_PREFIX"):
        # A user's shell may put folders of its own before the image's.
        assert given[name].endswith(worker.environment[name])
    found = worker.run("mpirun --version")
    assert found.returncode == 0 and "Open MPI" in found.stdout + found.stderr


@pytest.mark.slow
def test_two_ranks_start_over_ssh(worker: Worker, tmp_path: Path) -> None:
    """Two hosts, as far as mpirun knows, that it reaches by ssh alone."""
    hosts = tmp_path / "hostfile"
    hosts.write_text("127.0.0.2 slots=1\n127.0.0.3 slots=1\n")
    program = "import horovod.tensorflow as hvd; hvd.init(); print('rank', hvd.rank(), 'of', hvd.size())"
    python = f"from components.train.launching.transports import make_mpi_loadable; make_mpi_loadable(); {program}"
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        ["mpirun", "-np", "2", "--hostfile", str(hosts), "--bind-to", "none", "--mca", "plm_rsh_agent",
         " ".join(worker.ssh), "--mca", "plm_rsh_no_tree_spawn", "1", "-x", "PATH", "-x", "LD_LIBRARY_PATH",
         "-x", "PYTHONPATH", sys.executable, "-c", python],
        env=worker.environment | as_root | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", "rank 0 of 2", "rank 1 of 2"]
