"""The input of the machine checks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from pipelines.ports import UI_PORT


@dataclass(frozen=True)
class Machine:
    """A machine, and how kfrec will use it.

    Attributes:
        workdir: folder of runs; need not exist.
        port: of ``kfrec ui``.
        prefix: root of the Python environment.
        proc: the kernel's proc file system.
        control_group: the cgroup file system, with this container's limits.
    """

    workdir: Path
    port: int = UI_PORT
    prefix: Path = Path(sys.prefix)
    proc: Path = Path("/proc")
    control_group: Path = Path("/sys/fs/cgroup")
