"""How the end of a run in KFP's UI ends a step: SIGTERM, and half a second later SIGKILL."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tests.waiting import LONGEST

GRACE = 0.5


def kill_soon(step: subprocess.Popen[bytes]) -> None:
    """Kills a step half a second after it was told to stop.

    The half second is that of a machine with a free core: while the step or the servers of this process wait for one,
    it stands still.
    """
    began, waited = time.monotonic(), _waited(step.pid)
    while step.poll() is None:
        passed = time.monotonic() - began
        if passed - (_waited(step.pid) - waited) >= GRACE or passed >= LONGEST:
            break
        time.sleep(0.02)
    step.kill()
    step.wait()


def _waited(pid: int) -> float:
    """Seconds that a process's and this one's threads have been ready to run without a core."""
    found = 0
    for each in (pid, os.getpid()):
        for thread in Path(f"/proc/{each}/task").glob("*/schedstat"):
            try:
                found += int(thread.read_text().split()[1])
            except (OSError, IndexError):
                continue
    return found / 1e9
