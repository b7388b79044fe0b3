"""What a node leaves on the machine, however it ends; here it is a daemon with a mount, a cgroup and a setting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.isolation import ROOT, cgroups, isolated, lacks_isolation, left_behind
from tests.waiting import wait_for

_PANIC = Path("/proc/sys/kernel/panic")
_CHILD = """
set -e
mkdir -p {folder}/mounted && mount -t tmpfs tmpfs {folder}/mounted
mkdir {group}/pod
setsid sh -c 'echo $$ > {group}/pod/cgroup.procs; sleep 3600 & sleep 3600' &
echo 77 > /proc/sys/kernel/panic
touch {folder}/up
sleep 3600
"""
_RUN = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
from tests.cluster.isolation import isolated
with isolated(Path(sys.argv[1]), "sh", "-c", sys.argv[2]):
    while True:
        time.sleep(1)
"""


pytestmark = pytest.mark.skipif(bool(lacks_isolation()), reason=lacks_isolation() or "unused")


def child(folder: Path) -> str:
    return _CHILD.format(folder=folder, group=cgroups(folder)[0])


def running(folder: Path) -> subprocess.Popen[bytes]:
    """A process that runs a node, which is up."""
    command = [sys.executable, "-c", _RUN, str(folder), child(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    wait_for(lambda: (folder / "up").exists() or process.poll() is not None)
    assert process.poll() is None and _PANIC.read_text().strip() == "77"
    # The daemon moves into its cgroup after ``up``.
    wait_for(lambda: any(line.startswith("process") for line in left_behind(folder)))
    return process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "node"


def gone(folder: Path) -> bool:
    return not left_behind(folder) and _PANIC.read_text().strip() != "77"


def test_nothing_is_left_after_success(folder: Path) -> None:
    with isolated(folder, "sh", "-c", child(folder)):
        wait_for(lambda: (folder / "up").exists())
        # Its mounts are not the machine's.
        assert not any("mounted" in line for line in left_behind(folder))
    assert gone(folder)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_after_a_signal(folder: Path, how: signal.Signals) -> None:
    process = running(folder)
    process.send_signal(how)
    process.wait()
    wait_for(lambda: gone(folder))


def test_nothing_is_left_by_the_run_after_one_that_was_killed_with_its_janitor(folder: Path) -> None:
    process = running(folder)
    (janitor,) = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.read_bytes().split(b"\0")[1:4] == [b"-m", b"tests.cluster.isolation", str(folder).encode()]
    ]
    os.kill(janitor, signal.SIGKILL)
    process.kill()
    process.wait()
    wait_for(lambda: not Path(f"/proc/{janitor}").exists())
    assert left_behind(folder) and not gone(folder)
    with isolated(folder, "sleep", "3600"):
        assert _PANIC.read_text().strip() != "77" and not (folder / "up").exists()
    assert gone(folder)


def test_a_folder_of_others_is_not_removed(folder: Path) -> None:
    folder.mkdir()
    (folder / "precious").touch()
    with pytest.raises(RuntimeError, match="is not the folder of a test cluster"), isolated(folder, "true"):
        pass
    assert (folder / "precious").exists()


def test_a_second_node_waits_for_the_end_of_the_first(folder: Path) -> None:
    process = running(folder)
    try:
        with pytest.raises(RuntimeError, match="another test cluster runs"), isolated(folder, "true"):
            pass
    finally:
        process.terminate()
        process.wait()
    wait_for(lambda: gone(folder))
