"""Records the owning process of an MLflow run, so that the next process can end runs of killed ones."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from components.lifetime import start_time

if TYPE_CHECKING:
    from mlflow import MlflowClient

HOST, PROCESS = "kfrec.host", "kfrec.process"
# Tag of a run that is KILLED, or was before a retry: the reason.
KILLED = "kfrec.killed"


def owner_tags() -> dict[str, str]:
    """Tags of a run that this process owns."""
    return {HOST: _host(), PROCESS: f"{os.getpid()}:{start_time(os.getpid())}"}


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


def user() -> str:
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
