"""Keeps a node's processes, mounts, network and cgroups apart from the machine, and removes them after every end.

The node lives in namespaces of its own; the kernel ends all its processes, and with them its mounts and its network, as
soon as the first of them ends. What outlives them are cgroups, files, and the kernel's settings that a kubelet changes.
A janitor, in a session of its own, removes these when the process that made it closes a pipe or dies; a run that was
killed together with its janitor is cleaned up by the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A kubelet sets these for the whole machine, and many pods need more watches.
SETTINGS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "fs/inotify/max_user_instances")
_INSTANCES = 1024
_NAMESPACES = ("--mount", "--net", "--pid", "--ipc", "--uts")
_END_SECONDS = 60
# The scheduler weighs a cgroup like one process; this one has a machine's worth of them.
_WEIGHTS = {"cpu.shares": "8192", "cpu.weight": "800"}


def lacks_isolation() -> str:
    """What this machine lacks for a node's namespaces, cgroups and settings; empty where it lacks nothing."""
    if os.getuid() != 0:
        return "namespaces and cgroups need root"
    tried = subprocess.run(["unshare", *_NAMESPACES, "--fork", "true"], capture_output=True, text=True)
    if tried.returncode:
        return tried.stderr.strip()
    places = [Path("/proc/sys"), *(group.parent for group in cgroups(ROOT))]
    read_only = [str(place) for place in places if os.statvfs(place).f_flag & os.ST_RDONLY]
    return f"read-only: {', '.join(read_only)}" if read_only else ""


class Node:
    """A running node.

    Attributes:
        folder: has all that it writes; shared with the machine.
    """

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder, self.process = folder, process

    def enter(self, *command: str) -> list[str]:
        """The command line that runs a command among the node's processes, in the repository."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return ["nsenter", f"--target={children[0]}", *_NAMESPACES, f"--wdns={ROOT}", "--", *command]


@contextmanager
def isolated(folder: Path, *command: str) -> Iterator[Node]:
    """Runs a command as the first process of a node, and removes all traces of the node at the end.

    Args:
        folder: of the node; removed.
        command: starts the node's processes and stays.

    Raises:
        RuntimeError: another node runs in this folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another test cluster runs in {folder}; wait for its end") from None
        remove(folder)
        folder.mkdir()
        (folder / "settings.json").write_text(json.dumps({name: _setting(name).read_text() for name in SETTINGS}))
        # It holds the lock too, until everything is removed.
        janitor = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.isolation", str(folder)],
            cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True, pass_fds=[lock.fileno()],
        )  # fmt: skip
        try:
            _setting("fs/inotify/max_user_instances").write_text(str(_INSTANCES))
            groups = [group / "servers" for group in cgroups(folder)]
            for group in groups:
                group.mkdir(parents=True)
                for name, weight in _WEIGHTS.items():
                    if (file := group.parent / name).exists():
                        file.write_text(weight)
            # A shell as the first process: it reaps orphans.
            started = [
                "unshare",
                *_NAMESPACES,
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
                '"$@"; exit $?',
                "sh",
            ]
            process = subprocess.Popen([*started, *command], cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True)
            (groups[0] / "cgroup.procs").write_text(str(process.pid))
            yield Node(folder, process)
        finally:
            with contextlib.suppress(BrokenPipeError):
                janitor.communicate()
            assert janitor.returncode == 0, f"the janitor of {folder} ended with status {janitor.returncode}"


def remove(folder: Path) -> None:
    """Ends a node's processes and removes what the kernel keeps of it, and its folder.

    Raises:
        RuntimeError: the folder is not that of a node, or a process does not end.
    """
    kept = folder / "settings.json"
    if folder.exists() and not kept.exists() and any(folder.iterdir()):
        raise RuntimeError(f"{folder}: is not the folder of a test cluster, so it is not removed")
    until = time.monotonic() + _END_SECONDS
    while alive := _processes(folder):
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > until:
            raise RuntimeError(f"processes {alive} of the test cluster do not end")
        time.sleep(0.05)
    for group in _groups(folder):
        _remove_group(group, until)
    if kept.exists():
        for name, value in json.loads(kept.read_text()).items():
            _setting(name).write_text(value)
    while folder.exists():
        try:
            shutil.rmtree(folder)
        except OSError:
            # Mounts go with the last process of their namespace, a moment after it.
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def left_behind(folder: Path) -> list[str]:
    """What is there of a node, a line each; nothing after its end."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [
        *(f"process {process}" for process in _processes(folder)),
        *(f"cgroup {group}" for group in _groups(folder)),
        *(f"mount {mount}" for mount in mounts if mount.startswith(f"{folder}/")),
        *([f"folder {folder}"] if folder.exists() else []),
    ]


def _setting(name: str) -> Path:
    return Path("/proc/sys") / name


def cgroup_name(folder: Path) -> str:
    """The name of a node's cgroups, below the root of each hierarchy."""
    return f"kfrec-cluster-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def cgroups(folder: Path) -> list[Path]:
    """A node's cgroup in each mounted hierarchy: of each controller of version 1, of version 2, or of both."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    # On a machine with both versions, runc puts containers into both.
    hierarchies = sorted((kind, Path(place)) for place, kind in mounts if kind in ("cgroup", "cgroup2"))
    # A chroot may have them once more.
    once = {place.stat().st_dev: place for _, place in reversed(hierarchies)}
    return [hierarchy / cgroup_name(folder) for hierarchy in reversed(once.values())]


def _groups(folder: Path) -> list[Path]:
    return [group for group in cgroups(folder) if group.is_dir()]


def _processes(folder: Path) -> list[int]:
    """Every process in a cgroup of the node."""
    found = set()
    for group in _groups(folder):
        for file in _files_of_processes(group):
            with contextlib.suppress(OSError):
                found |= {int(line) for line in file.read_text().split()}
    return sorted(found - {0})


def _files_of_processes(group: Path) -> list[Path]:
    """Each cgroup's list of processes, below one that somebody else may be removing."""
    while True:
        try:
            return list(group.rglob("cgroup.procs"))
        except FileNotFoundError:
            if not group.is_dir():
                return []


def _remove_group(group: Path, until: float) -> None:
    """Removes a cgroup and those in it, deepest first: the kernel frees one a moment after its last process."""
    while group.is_dir():
        try:
            for path in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
                path.rmdir()
            group.rmdir()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    remove(Path(sys.argv[1]))
