"""One JSON object per line on stdout, for ``kfrec run``, which shows all steps on one screen.

A step emits events only if KFREC_EVENTS is set; otherwise it draws its own bars. The events:

    {"kfrec": "started", "step": ..., "run_id": the pipeline run}
    {"kfrec": "progress", "label": ..., "unit": ..., "done": n, "total": n or null}
    {"kfrec": "measured", "step": global step, "metrics": {name: value}}, of a training
    {"kfrec": "epoch", "epoch": finished epochs, "metrics": {name: value}}, of a training
    {"kfrec": "finished", "step": ..., "seconds": s, "rows": n, "counts": {...}, "outputs": {name: path}}
    {"kfrec": "warning", "step": ..., "about": a few words, "message": one line}
    {"kfrec": "error", "step": ..., "message": one line, "unreachable": true where a service did not answer,
     "crashed": true for an uncaught exception, whose traceback is in the process's output}
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

VARIABLE = "KFREC_EVENTS"
_MARK = '{"kfrec": '


def emitting() -> bool:
    """Whether the parent process reads events."""
    return bool(os.environ.get(VARIABLE))


def emit(kind: str, **fields: Any) -> None:
    """Writes one event, if the parent process reads events."""
    if emitting():
        sys.stdout.write(json.dumps({"kfrec": kind, **fields}) + "\n")
        sys.stdout.flush()


def warn(step: str, about: str, message: str) -> None:
    """Tells the user of something that does not stop a step: as an event, and as a line of the step's output.

    Args:
        step: that warns.
        about: a few words for lists of runs.
        message: one line.
    """
    emit("warning", step=step, about=about, message=message)
    print(message, flush=True)


def parse(line: str) -> dict[str, Any] | None:
    """The event in a line of a step's output, or None for ordinary output."""
    start = line.find(_MARK)
    if start < 0:
        return None
    try:
        return json.loads(line[start:])
    except ValueError:
        return None
