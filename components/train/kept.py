"""What a failed training leaves beside its output, so that hours of work and the reason are not lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from components.errors import KfrecError
from components.train.launch import WorkerCrashed


@dataclass(frozen=True)
class Kept:
    """Places that outlive a failure.

    Attributes:
        checkpoints: folder of checkpoints.
        log: file with what the workers said.
    """

    checkpoints: Path
    log: Path


@contextmanager
def kept_on_failure(output: Path, load_checkpoint_path: str) -> Iterator[Kept]:
    """Gives places beside ``output``; success removes them, failure names them in its message.

    Args:
        output: the step's output folder.
        load_checkpoint_path: a training that goes on from an earlier failure's checkpoints does not remove them first.
    """
    output = output.absolute()
    kept = Kept(output.with_name(f".{output.name}.checkpoint"), output.with_name(f".{output.name}.log"))
    kept.log.parent.mkdir(parents=True, exist_ok=True)
    if not load_checkpoint_path or Path(load_checkpoint_path).absolute() != kept.checkpoints:
        shutil.rmtree(kept.checkpoints, ignore_errors=True)
    try:
        yield kept
    except (KfrecError, WorkerCrashed) as error:
        if any(kept.checkpoints.glob("*.index")):
            hint = f"; go on with load_checkpoint_path={kept.checkpoints}"
            raise type(error)(f"{error}{hint}") from error
        raise
    shutil.rmtree(kept.checkpoints, ignore_errors=True)
    kept.log.unlink(missing_ok=True)
