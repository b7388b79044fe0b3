"""KFP's recurring runs that belong to kfrec's schedules.

Name (``kfrec-<schedule>-<digest>``) and description (the source as JSON) link a recurring run to its schedule. Other
recurring runs are never touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pipelines.cluster.connection import namespace_of, pages

if TYPE_CHECKING:
    from kfp import Client

PREFIX = "kfrec-"
_STATES = {"ENABLED": True, "DISABLED": False}


@dataclass(frozen=True)
class RecurringRun:
    """One recurring run.

    Attributes:
        id: KFP's identifier, never reused.
        schedule: the schedule it belongs to.
        digest: of its source.
        enabled: KFP's status, None if unknown. It lags behind KFP's scheduler: use it for display only, never for
            decisions.
        wanted: its source, by field.
        created: creation time.
        experiment: KFP's identifier of its runs' experiment.
    """

    id: str
    schedule: str
    digest: str
    enabled: bool | None
    wanted: Mapping[str, Any]
    created: datetime
    experiment: str


def owned(client: Client) -> dict[str, list[RecurringRun]]:
    """kfrec's recurring runs by schedule, oldest first."""
    found: dict[str, list[RecurringRun]] = {}
    for page in pages(client.list_recurring_runs, sort_by="created_at asc", namespace=namespace_of(client)):
        for shown in page.recurring_runs or ():
            if (run := _ours(shown)) is not None:
                found.setdefault(run.schedule, []).append(run)
    return {name: sorted(runs, key=lambda run: (run.created, run.id)) for name, runs in found.items()}


def display_name(schedule: str, digest: str) -> str:
    """The name of a schedule's recurring run."""
    return f"{PREFIX}{schedule}-{digest}"


def description(schedule: str, wanted: Mapping[str, Any]) -> str:
    """The description of a recurring run, which identifies it and shows differences."""
    return json.dumps({"schedule": schedule, **wanted}, sort_keys=True)


def _ours(shown: Any) -> RecurringRun | None:
    try:
        kept = json.loads(shown.description or "{}")
    except ValueError:
        return None
    if not isinstance(kept, dict) or not isinstance(schedule := kept.pop("schedule", None), str):
        return None
    digest = str(shown.display_name).rpartition("-")[2]
    if shown.display_name != display_name(schedule, digest) or len(digest) != 8:
        return None
    created = shown.created_at or datetime.min.replace(tzinfo=timezone.utc)
    return RecurringRun(
        shown.recurring_run_id, schedule, digest, _STATES.get(shown.status), kept, created, shown.experiment_id
    )
