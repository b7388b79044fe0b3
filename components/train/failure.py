"""What a failed training leaves beside its output: checkpoints and log on this machine, a note in object storage.

Argo retries a failed step whatever its exit status: KFP's launcher exits with 1 for every failure, and pipelines cannot
set a condition. A permanently failed training therefore writes a note; retries of its step exit at once instead of
occupying nodes and GPUs again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.artifacts.notes import read_notes
from components.artifacts.remote import read_remote, write_remote
from components.errors import KfrecError, WorkerCrashed
from components.lifetime import Stopped
from components.storage import below
from components.train.launching.launch import TrainingFailed
from components.train.loop.listing import complete_names

NOTE = "_failed.json"


@contextmanager
def failing_once(uri: str, run_id: str, echo: Callable[[str], None]) -> Iterator[None]:
    """Runs a training whose final failure ends all retries of its step.

    Args:
        uri: of the training's output.
        run_id: the pipeline run; empty outside a pipeline, where there are no retries and no note is written.

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
        found = json.loads(read_remote(uri, NOTE) or b"{}")
        return str(found["message"]) if found.get("run_id") == run_id else ""
    except (ValueError, AttributeError, KeyError):
        return ""  # not a note of this module


def has_checkpoint(folder: Path) -> bool:
    """Whether a training can resume from a folder; a kill during the first save leaves an incomplete one."""
    return bool(complete_names(folder))


def made_with(checkpoints: Path) -> dict[str, Any]:
    """What a failed training that left these checkpoints was given; empty if it is not known."""
    return read_notes(_note(checkpoints))


def require_one_start(load_checkpoint_path: str, continue_path: str) -> None:
    """Checks that a training either resumes or continues another one.

    Both are allowed if the training to resume has itself continued that one.

    Raises:
        KfrecError: both are given.
    """
    if not load_checkpoint_path or not continue_path:
        return
    begun = made_with(Path(load_checkpoint_path)).get("parameters", {})
    if begun.get("continue_path") != continue_path:
        raise KfrecError(
            f"parameters load_checkpoint_path={load_checkpoint_path} and continue_path={continue_path}: the first "
            "resumes a training, the second starts one; give one of them"
        )


def _note(checkpoints: Path) -> Path:
    return checkpoints.with_name(f"{checkpoints.name}.json")


@dataclass(frozen=True)
class Leftovers:
    """Paths that outlive a failure."""

    checkpoints: Path
    log: Path

    def note(self, listing: Mapping[str, Any]) -> None:
        """Records the inputs and parameters of this training beside its checkpoints; see ``made_with``."""
        _note(self.checkpoints).write_text(json.dumps(listing, indent=2) + "\n")

    def clear(self, load_checkpoint_path: str) -> None:
        """Removes the checkpoints of an earlier failure, unless this training resumes from them."""
        if not load_checkpoint_path or Path(load_checkpoint_path).resolve() != self.checkpoints:
            shutil.rmtree(self.checkpoints, ignore_errors=True)


@contextmanager
def left_on_failure(output: Path) -> Iterator[Leftovers]:
    """Yields paths next to the folder ``output``; success removes them, failure names them in its message."""
    output = output.resolve()
    left = Leftovers(output.with_name(f".{output.name}.checkpoint"), output.with_name(f".{output.name}.log"))
    try:
        yield left
    except (KfrecError, WorkerCrashed, Stopped) as error:
        hint = f"; resume with load_checkpoint_path={left.checkpoints}"
        if not has_checkpoint(left.checkpoints):
            raise
        if isinstance(error, Stopped):
            error.note = hint
            raise
        raise type(error)(f"{error}{hint}") from error
    shutil.rmtree(left.checkpoints, ignore_errors=True)
    _note(left.checkpoints).unlink(missing_ok=True)
    left.log.unlink(missing_ok=True)
