"""What a whole node leaves on the machine when the command that runs it is killed.

It takes the images and programs of `make cluster-test`, which runs this file at its end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.build import CACHE
from tests.cluster.isolation import ROOT, SETTINGS, left_behind
from tests.waiting import wait_for

WARM = "KFREC_CLUSTER_WARM"


def settings() -> dict[str, str]:
    """The kernel's settings that a kubelet changes for the whole machine."""
    return {name: (Path("/proc/sys") / name).read_text() for name in SETTINGS}


@pytest.mark.skipif(WARM not in os.environ, reason="runs at the end of make cluster-test")
def test_nothing_is_left_of_a_node_with_pods_whose_command_is_killed() -> None:
    folder = CACHE / "node"
    before = settings()
    serving = "kubectl create deployment pause --image=localhost/kfrec-pause:1"
    waiting = "kubectl wait --for=condition=Available deployment/pause --timeout=600s"
    script = f"{serving} && {waiting} && touch {folder}/up && sleep 3600"
    command = [sys.executable, "-m", "tests.cluster", "--", "sh", "-c", script]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    wait_for(lambda: (folder / "up").exists() or process.poll() is not None)
    assert process.poll() is None and left_behind(folder)
    assert settings() != before
    process.kill()
    process.wait()
    wait_for(lambda: not left_behind(folder))
    assert settings() == before
