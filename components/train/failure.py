"""The final failure of a training, recorded beside its output in object storage.

Argo retries a failed step whatever its exit status: KFP's launcher exits with 1 for every failure, and pipelines cannot
set a condition. A permanently failed training therefore writes a note; retries of its step exit at once instead of
occupying nodes and GPUs again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from components.artifacts.remote import read_remote, write_remote
from components.errors import KfrecError
from components.storage import below
from components.train.launching.launch import TrainingFailed

NOTE = "_failed.json"


@contextmanager
def failing_once(uri: str, run_id: str, echo: Callable[[str], None]) -> Iterator[None]:
    """Runs a training whose final failure ends all retries of its step.

    Args:
        uri: of the training's output.
        run_id: the pipeline run; empty outside a pipeline, where there are no retries and no note is written.
        echo: called with a line for the user.

    Raises:
        KfrecError: an earlier attempt of this run failed permanently.
    """
    if run_id and (message := _noted(uri, run_id)):
        raise KfrecError(
            f"{message}; this ended an earlier try of the step, and another one would end in the same way: start a new "
            f"run, or correct the cause, delete {below(uri, NOTE)} and retry the run"
        )
    try:
        yield
    except TrainingFailed as failure:
        if run_id:
            try:
                write_remote(uri, NOTE, json.dumps({"run_id": run_id, "message": str(failure)}))
            except KfrecError as error:
                echo(f"retries of the step will train again ({error})")
        raise


def _noted(uri: str, run_id: str) -> str:
    """The permanent failure of an earlier attempt of the run, or an empty string."""
    try:
        kept = json.loads(read_remote(uri, NOTE) or b"{}")
        return str(kept["message"]) if kept.get("run_id") == run_id else ""
    except (ValueError, AttributeError, KeyError):
        return ""  # not a note of this module
