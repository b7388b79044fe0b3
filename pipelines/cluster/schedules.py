"""The file of schedules."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from components.errors import KfrecError
from components.steps.settings_file import checked as typed
from components.steps.settings_file import read_yaml, require_mapping
from pipelines.cluster.cron import check_cron, last_time, next_times
from pipelines.cluster.parameters import checked_for_cluster
from pipelines.compilation import version_name
from pipelines.defaults import MODEL, PIPELINES, Pipeline

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True)
class Schedule:
    """One schedule.

    Attributes:
        name: of the schedule: lower-case letters, digits and dashes, at most 40 characters.
        pipeline: "training" or "retraining".
        model: name of the model.
        dataset: name of the data set; empty is the model's own.
        task: name of the task that evaluates it; empty is the model's own.
        cron: second, minute, hour, day of month, month, day of week.
        start: no runs before this time (ISO 8601 with an offset); empty is now.
        end: no runs after this time; empty is never.
        max_concurrency: maximum number of concurrent runs.
        catch_up: whether all runs missed while the schedule was paused or KFP was down start afterwards; otherwise
            only the last one, at once.
        paused: whether it is paused.
        parameters: pipeline parameters by name.
        experiment: KFP experiment of the runs.
        pipeline_root: where artifacts go; empty is the cluster's default.
        service_account: of the steps; empty is the cluster's default.
    """

    name: str = ""
    pipeline: str = "retraining"
    model: str = MODEL
    dataset: str = ""
    task: str = ""
    cron: str = ""
    start: str = ""
    end: str = ""
    max_concurrency: int = 1
    catch_up: bool = False
    paused: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    experiment: str = "kfrec"
    pipeline_root: str = ""
    service_account: str = ""

    @property
    def runs(self) -> Pipeline:
        """The pipeline that it runs."""
        return Pipeline(self.pipeline, self.model, self.dataset, self.task)

    def wanted(self, ir: str) -> dict[str, Any]:
        """The desired state in KFP, by field, without ``paused``."""
        return {
            "version": version_name(ir),
            "cron": self.cron,
            "start": self.start,
            "end": self.end,
            "max_concurrency": self.max_concurrency,
            "catch_up": self.catch_up,
            "parameters": dict(self.parameters),
            "pipeline_root": self.pipeline_root,
            "service_account": self.service_account,
            "experiment": self.experiment,
        }

    def digest(self, ir: str) -> str:
        """Identifies the immutable content of the recurring run."""
        return hashlib.sha256(json.dumps(self.wanted(ir), sort_keys=True).encode()).hexdigest()[:8]

    @property
    def starts(self) -> datetime | None:
        """The start as a time; None if empty."""
        return _time(self.start)

    @property
    def ends(self) -> datetime | None:
        """The end as a time; None if empty."""
        return _time(self.end)

    def next_runs(self, zone: ZoneInfo, now: datetime | None = None) -> list[datetime]:
        """The next three run times at most; empty after ``end``."""
        now = now or datetime.now(zone)
        return next_times(self.cron, zone, max(now, self.starts or now), self.ends)

    def missed(self, zone: ZoneInfo, since: datetime, now: datetime | None = None) -> datetime | None:
        """The last run time missed after ``since``; None if none was missed."""
        now = now or datetime.now(zone)
        return last_time(self.cron, zone, max(since, self.starts or since), min(now, self.ends or now))


@dataclass(frozen=True)
class ScheduleFile:
    """A file of schedules.

    Attributes:
        time_zone: of KFP's scheduler, for every cron line. The cluster sets it (CRON_SCHEDULE_TIMEZONE of its
            scheduledworkflow controller, UTC by default); the file repeats it.
        schedules: by name.
        namespace: the user's, in multi-user KFP; empty takes the command line's, if any.
    """

    time_zone: ZoneInfo
    schedules: Mapping[str, Schedule]
    namespace: str = ""


def load_schedules(path: Path) -> ScheduleFile:
    """Reads and checks a file.

    Raises:
        KfrecError: the first mistake, with its location.
    """
    body = require_mapping(str(path), read_yaml(path), ("time_zone", "namespace", "schedules"))
    if "time_zone" not in body:
        raise KfrecError(f"{path}: time_zone is missing; set it to that of KFP's scheduler, UTC by default")
    try:
        zone = ZoneInfo(str(body["time_zone"]))
    except (ZoneInfoNotFoundError, ValueError):
        raise KfrecError(f"{path}: time_zone {body['time_zone']!r} is not known; write UTC or Area/City") from None
    if not isinstance(namespace := body.get("namespace", ""), str):
        raise KfrecError(f"{path}: namespace {namespace!r} is not text; write it in quotes")
    entries = body.get("schedules") or []
    if not isinstance(entries, list):
        raise KfrecError(f"{path}: schedules: is not a list; begin each schedule with a dash")
    schedules: dict[str, Schedule] = {}
    for number, entry in enumerate(entries, 1):
        schedule = _schedule(f"{path}: schedule {number}", entry)
        if schedule.name in schedules:
            raise KfrecError(f"{path}: schedule {number}: the name {schedule.name} is used twice; give another")
        schedules[schedule.name] = schedule
    return ScheduleFile(zone, schedules, namespace)


def _schedule(place: str, entry: Any) -> Schedule:
    schedule = Schedule(**typed(place, entry, Schedule))
    if not _NAME.fullmatch(schedule.name):
        raise KfrecError(f"{place}: name {schedule.name!r}: use lowercase letters, digits and dashes, at most 40")
    place = f"{place} ({schedule.name})"
    if schedule.pipeline not in PIPELINES:
        raise KfrecError(f"{place}: pipeline {schedule.pipeline!r} is not one of {', '.join(PIPELINES)}")
    if not 1 <= schedule.max_concurrency <= 10:
        raise KfrecError(f"{place}: max_concurrency={schedule.max_concurrency} must be at least 1 and at most 10")
    for name in ("start", "end"):
        _check_time(place, name, getattr(schedule, name))
    if schedule.starts and schedule.ends and schedule.ends <= schedule.starts:
        raise KfrecError(f"{place}: end {schedule.end!r} is not after start {schedule.start!r}; correct one")
    try:
        check_cron(schedule.cron)
        parameters = checked_for_cluster(schedule.parameters, schedule.runs)
    except KfrecError as error:
        raise KfrecError(f"{place}: {error}") from None
    return dataclasses.replace(schedule, parameters=parameters)


def _check_time(place: str, name: str, text: str) -> None:
    try:
        known = not text or datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo is not None
    except ValueError:
        known = False
    if not known:
        raise KfrecError(f"{place}: {name} {text!r} is not a time; write it as '2026-01-31T02:00:00+00:00'")


def _time(text: str) -> datetime | None:
    # Python 3.10 does not parse Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
