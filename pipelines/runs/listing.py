"""Runs as a list."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.runs.compare import primary_score
from pipelines.runs.record import RUNNING, RunRecord
from pipelines.screen import duration
from pipelines.summary import warnings_of

# Warnings that a row names; --json has all.
_NAMED = 2
_COLUMNS = ("run", "state", "model", "started", "duration", "metric", "warnings", "verdict")


def listed(run: RunRecord) -> dict[str, Any]:
    """A run as a row; of a running or killed run, ``seconds`` end at its last finished step."""
    state, score = run.state_now(), primary_score(run)
    registered = run.summary().get("registered", {})
    return {
        "run": run.name,
        "state": state,
        "pipeline": run.pipeline.kind,
        "model": run.pipeline.model,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(run.started)),
        "seconds": round(run.seconds, 1),
        "metric": score[0] if score else None,
        "score": score[1] if score else None,
        "registered": registered.get("model"),
        "version": registered.get("version"),
        "alias": registered.get("alias"),
        "warnings": [warning["about"] for warning in warnings_of(run.steps)],
        "message": run.message,
        "folder": str(run.folder),
    }


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """One line per run, oldest first."""
    rows = [_COLUMNS, *map(_row, runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    verdict = (
        f"version {run['version']}, {run['alias']}" if run["alias"] else run["message"].partition("; resume with")[0]
    )
    return (
        run["run"],
        run["state"],
        run["model"],
        run["started"][:16].replace("T", " "),
        "" if run["state"] == RUNNING else duration(run["seconds"]),
        "" if run["score"] is None else f"{run['metric']} {run['score']:.4f}",
        _shortened(run["warnings"]),
        verdict,
    )


def _shortened(warnings: Sequence[str]) -> str:
    """Number and names of warnings, such as "3: psi reviews rating, new reviews user, …"."""
    more = ["…"] if len(warnings) > _NAMED else []
    return f"{len(warnings)}: {', '.join([*warnings[:_NAMED], *more])}" if warnings else ""
