"""What the tests of schedules share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pipelines.cluster.connection import connect
from pipelines.cluster.lock import LockTimes
from pipelines.cluster.reconcile import Reconciler
from pipelines.cluster.schedules import load_schedules

# A lock left behind is taken over at once, also where its holder is only slow.
QUICK = LockTimes(life=0.0, work=60.0, wait=20.0, pause=0.01)
NIGHTLY = {"name": "nightly", "pipeline": "training", "cron": "0 0 2 * * *", "parameters": {"epochs": 1}}
# Schedules do not look into a pipeline.
IR = "pipelineInfo:\n  name: kfrec-training\n  description: trains\n"


def write(path: Path, *schedules: dict[str, Any], time_zone: str = "UTC", **more: Any) -> Path:
    path.write_text(yaml.safe_dump({"time_zone": time_zone, "schedules": list(schedules), **more}))
    return path


def apply(
    url: str, file: Path, ir: str = IR, times: LockTimes = QUICK, namespace: str = "", **options: Any
) -> list[str]:
    """Applies a file and returns what was told."""
    told: list[str] = []
    client = connect(url, namespace)
    Reconciler(client, url, lambda name: ir, echo=told.append, times=times, **options).apply(load_schedules(file))
    return told
