"""Makes KFP's recurring runs what the file of schedules says.

KFP's recurring runs cannot be edited. A changed schedule becomes a new recurring run: created paused, then the old one
is paused, the new one enabled, the old one deleted. In this order no moment has two of a schedule enabled, and whatever
call is the last of a reconciler that is killed, the next one finds what it needs to go on. That no two reconcilers do
this at once is :mod:`pipelines.cluster.lock`'s business.

A recurring run belongs to a schedule by its name, ``kfrec-<schedule>-<digest>``; others are never touched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pipelines.cluster.connection import explained
from pipelines.cluster.lock import LockTimes, locked
from pipelines.cluster.schedules import Schedule, ScheduleFile
from pipelines.cluster.versions import ensure_version
from pipelines.compilation import version_name

if TYPE_CHECKING:
    from kfp import Client

PREFIX = "kfrec-"
_PAGE = 100
Run = Any


@dataclass
class Changes:
    """What was done, or would be: counts by kind."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1


@dataclass(frozen=True)
class Reconciler:
    """Brings KFP to what a file says.

    Attributes:
        client: of KFP.
        host: its address, for messages.
        compiled: pipeline name to its IR YAML.
        dry_run: only tell.
        prune: also delete schedules that the file does not name.
        tell: called with each line for the user.
        times: of the lock.
    """

    client: Client
    host: str
    compiled: Callable[[str], str]
    dry_run: bool = False
    prune: bool = False
    tell: Callable[[str], None] = print
    times: LockTimes = field(default_factory=LockTimes)

    def apply(self, file: ScheduleFile) -> Changes:
        """Makes the changes that are needed, and tells them.

        Raises:
            KfrecError: KFP refuses or does not answer; run it again.
        """
        changes = Changes()
        irs = {schedule.pipeline: "" for schedule in file.schedules.values()}
        irs = {name: self.compiled(name) for name in irs}
        self.tell(f"times are in {file.time_zone.key}, as KFP's scheduler must be set")
        with explained(self.host):
            if self.dry_run:
                self._reconcile(file, irs, changes, lambda: None)
            else:
                with locked(self.client, self._namespace, self.times) as check:
                    self._reconcile(file, irs, changes, check)
        told = ", ".join(f"{count} {kind}" for kind, count in changes.counts.items()) or "nothing to do"
        self.tell(f"{'would change: ' if self.dry_run else ''}{told}")
        return changes

    def _reconcile(
        self, file: ScheduleFile, irs: Mapping[str, str], changes: Changes, check: Callable[[], None]
    ) -> None:
        there = self._owned()
        for name, schedule in file.schedules.items():
            self._schedule(schedule, irs[schedule.pipeline], there.pop(name, []), changes, check)
            times = ", ".join(f"{time:%Y-%m-%d %H:%M:%S %Z}" for time in schedule.next_runs(file.time_zone))
            self.tell(f"  {'paused' if schedule.paused else 'next ' + times}")
        for name, runs in there.items():
            if not self.prune:
                self.tell(f"{name}: not in the file; left alone, --prune deletes it")
                continue
            self.tell(f"- {name}: deleted")
            changes.add("deleted")
            for run in runs:
                self._change(check, self.client.disable_recurring_run, run.recurring_run_id)
            for run in runs:
                self._change(check, self.client.delete_recurring_run, run.recurring_run_id)

    def _schedule(
        self, schedule: Schedule, ir: str, runs: list[Run], changes: Changes, check: Callable[[], None]
    ) -> None:
        digest = schedule.digest(ir)
        # Of several with the same content, one that runs already is kept, so that nothing has to be switched.
        same = sorted((run for run in runs if _digest_of(run) == digest), key=lambda run: not _enabled(run))
        others = [run for run in runs if not same or run is not same[0]]
        if same and not others and _enabled(same[0]) != schedule.paused:
            self.tell(f"= {schedule.name}: unchanged")
            changes.add("unchanged")
            return
        self._tell_difference(schedule, ir, same, others, changes)
        if self.dry_run:
            return
        new = same[0] if same else self._create(schedule, ir, digest, check)
        for run in others:
            if _enabled(run):
                self._change(check, self.client.disable_recurring_run, run.recurring_run_id)
        if _enabled(new) == schedule.paused:
            switch = self.client.disable_recurring_run if schedule.paused else self.client.enable_recurring_run
            self._change(check, switch, new.recurring_run_id)
        for run in others:
            self._change(check, self.client.delete_recurring_run, run.recurring_run_id)

    def _create(self, schedule: Schedule, ir: str, digest: str, check: Callable[[], None]) -> Run:
        """The new recurring run, paused."""
        check()
        version = ensure_version(self.client, ir)
        check()
        experiment = self.client.create_experiment(schedule.experiment, namespace=self._namespace)
        check()
        return self.client.create_recurring_run(
            experiment.experiment_id,
            f"{PREFIX}{schedule.name}-{digest}",
            description=json.dumps({"schedule": schedule.name, **schedule.wanted(ir)}, sort_keys=True),
            start_time=_rfc3339(schedule.start),
            end_time=_rfc3339(schedule.end),
            cron_expression=schedule.cron,
            max_concurrency=schedule.max_concurrency,
            no_catchup=not schedule.catch_up,
            params=dict(schedule.parameters),
            pipeline_id=version.pipeline_id,
            version_id=version.version_id,
            enabled=False,
            pipeline_root=schedule.pipeline_root or None,
            service_account=schedule.service_account or None,
        )

    def _tell_difference(
        self, schedule: Schedule, ir: str, same: list[Run], others: list[Run], changes: Changes
    ) -> None:
        wanted = schedule.wanted(ir)
        if not same and not others:
            self.tell(f"+ {schedule.name}: created, cron {schedule.cron}, {schedule.pipeline} {version_name(ir)}")
            changes.add("created")
            return
        if same:
            if _enabled(same[0]) == schedule.paused:
                self.tell(f"~ {schedule.name}: {'paused' if schedule.paused else 'resumed'}")
            else:
                self.tell(f"~ {schedule.name}: {len(others)} left by an interrupted change, removed")
            changes.add("changed")
            return
        self.tell(f"~ {schedule.name}: changed")
        changes.add("changed")
        before = _wanted_of(others[-1])
        for name, value in wanted.items():
            if before.get(name) != value:
                self.tell(f"    {name}: {_short(before.get(name))} -> {_short(value)}")

    def _owned(self) -> dict[str, list[Run]]:
        """KFP's recurring runs that are kfrec's, by schedule, oldest first."""
        found: dict[str, list[Run]] = {}
        token = ""
        while True:
            page = self.client.list_recurring_runs(page_token=token, page_size=_PAGE, namespace=self._namespace)
            for run in page.recurring_runs or ():
                if (name := _schedule_of(run)) is not None:
                    found.setdefault(name, []).append(run)
            token = page.next_page_token
            if not token:
                break
        for runs in found.values():
            runs.sort(
                key=lambda run: (run.created_at or datetime.min.replace(tzinfo=timezone.utc), run.recurring_run_id)
            )
        return found

    def _change(self, check: Callable[[], None], call: Callable[[str], Any], identifier: str) -> None:
        if self.dry_run:
            return
        check()
        call(identifier)

    @property
    def _namespace(self) -> str | None:
        return self.client.get_user_namespace() or None


def _schedule_of(run: Run) -> str | None:
    """The schedule a recurring run belongs to, or None where it is not kfrec's."""
    name, dash, digest = str(run.display_name).rpartition("-")
    is_ours = dash and name.startswith(PREFIX) and len(digest) == 8 and _wanted_of(run).get("schedule")
    return name.removeprefix(PREFIX) if is_ours else None


def _digest_of(run: Run) -> str:
    return str(run.display_name).rpartition("-")[2]


def _enabled(run: Run) -> bool:
    return run.status == "ENABLED" if run.status else run.mode == "ENABLE"


def _wanted_of(run: Run) -> dict[str, Any]:
    """What was wanted when it was created; it says so in its description."""
    try:
        body = json.loads(run.description or "{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _rfc3339(text: str) -> str | None:
    """A time as KFP's API takes it, in UTC."""
    if not text:
        return None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
