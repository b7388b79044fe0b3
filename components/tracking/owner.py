"""Records the origin of an MLflow run, and its owning process, so that the next process can end runs of killed ones."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from components.lifetime import start_time

if TYPE_CHECKING:
    from mlflow import MlflowClient

HOST, PROCESS = "kfrec.host", "kfrec.process"
# Tag of a run that is KILLED, or was before a retry: the reason.
KILLED = "kfrec.killed"
_COMMIT, _USER = "mlflow.source.git.commit", "mlflow.user"


def owner_tags() -> dict[str, str]:
    """Tags of a run that this process owns."""
    return {HOST: _host(), PROCESS: f"{os.getpid()}:{start_time(os.getpid())}"}


def origin_tags(others: Mapping[str, str]) -> dict[str, str]:
    """Tags of a run that this process starts: its commit, user and owner, and others; the empty ones are left out."""
    tags = {_COMMIT: git_commit(), _USER: _user(), **owner_tags(), **others}
    return {name: value for name, value in tags.items() if value}


def git_commit(folder: Path | None = None) -> str:
    """The commit checked out in ``folder`` (default: where kfrec is installed), or "" outside a git checkout."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, cwd=folder or Path(__file__).parent, capture_output=True, text=True, timeout=10)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def end_abandoned(client: MlflowClient, experiments: Sequence[str]) -> None:
    """Sets RUNNING runs of dead processes of this host to KILLED.

    Args:
        client: of the store.
        experiments: ids of the experiments to search.
    """
    query = f"attributes.status = 'RUNNING' and tags.`{HOST}` = '{_host()}'"
    for run in client.search_runs(list(experiments), query) if experiments else ():
        if _is_gone(run.data.tags):
            pid = run.data.tags[PROCESS].partition(":")[0]
            client.set_tag(run.info.run_id, KILLED, f"process {pid} ended without ending the run")
            client.set_terminated(run.info.run_id, "KILLED")


def _user() -> str:
    """The user of this process; a container's user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"uid {os.getuid()}"


def _is_gone(tags: Mapping[str, str]) -> bool:
    pid, _, started = tags.get(PROCESS, "").partition(":")
    return pid.isdigit() and bool(started) and start_time(int(pid)) != started


def _host() -> str:
    """The machine and, if containers share its name, the container: a pid is only valid there."""
    try:
        space = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"
