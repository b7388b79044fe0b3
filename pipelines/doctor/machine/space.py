"""Disk and memory, compared with the requirements of a run of the built-in data."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from components.errors import KfrecError
from pipelines.doctor.finding import Finding, missing, note, ok
from pipelines.doctor.machine.place import Machine

# `kfrec run` with defaults writes 70 MB and uses 1.2 GB of memory on two cores; preprocessing uses more on more cores.
DISK = 500_000_000
MEMORY = 2_000_000_000


def disk(machine: Machine) -> Iterator[Finding]:
    folder = machine.workdir.absolute()
    while not _is_there(folder):
        folder = folder.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise KfrecError(f"{folder}: cannot be accessed ({error.strerror}); choose another --workdir") from None
    found = f"{_told(free)} free at {folder}"
    if not folder.is_dir():
        yield missing(f"{folder} is a file", "choose another --workdir")
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield missing(f"{folder} cannot be written to", "choose another --workdir, or give this user write access")
    elif free < DISK:
        yield missing(found, f"a run of the built-in data needs {_told(DISK)}: free some, or choose another --workdir")
    else:
        yield ok(found)


def _is_there(path: Path) -> bool:
    """Whether the path exists, be it a dangling link."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def memory(machine: Machine) -> Iterator[Finding]:
    left = [_available(machine.proc), *_free_in(machine.control_group)]
    free = min((amount for amount in left if amount is not None), default=None)
    if free is None:
        yield note("the kernel does not report how much is free", f"check that it is {_told(MEMORY)} or more")
    elif free < MEMORY:
        yield missing(
            f"{_told(free)} free",
            f"a run of the built-in data needs {_told(MEMORY)}: close programs or raise the limit",
        )
    else:
        yield ok(f"{_told(free)} free")


def _available(proc: Path) -> int | None:
    with suppress(OSError):
        found = re.search(r"^MemAvailable:\s*(\d+) kB$", (proc / "meminfo").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else None
    return None


def _free_in(group: Path) -> Iterator[int]:
    """Free memory below the container's limit, for cgroup v2 and v1."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):  # no limit: "max", or no such file
            yield int((group / limit).read_text()) - int((group / used).read_text())


def _told(amount: int) -> str:
    return f"{amount / 1e9:.1f} GB"
