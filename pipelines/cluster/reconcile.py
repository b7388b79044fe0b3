"""Reconciles KFP's recurring runs with the file of schedules.

KFP's recurring runs are immutable. A changed schedule becomes a new recurring run: it is created paused, then all
others of this schedule are paused and deleted, then it is enabled. If a reconciler is killed at any point, the next one
continues. Runs that have started are not affected: :mod:`pipelines.cluster.removal`.

**Invariant: at no moment are two recurring runs of one schedule enabled**, even with concurrent reconcilers, slow
requests, or a reconciler that sleeps for an hour between two requests. A reconciler enables X only after it has listed
the recurring runs, after creating X, and deleted all others in that list. Suppose X and Y are both enabled, and X is
older. The reconciler that enabled Y listed after Y's creation, hence after X's: the list contained X, or X was gone
already. So X was deleted before Y was enabled, and a deleted recurring run cannot be enabled. The proof requires that
recurring runs are created paused, identifiers are never reused, KFP's lists are complete, and the old one is deleted
before the new one is enabled. Before KFP 2.16 an old one may stay, paused, until its runs have ended; the lock prevents
that it is enabled meanwhile, and the next reconciler pauses it again.

Otherwise the invariant needs no lock. But two reconcilers that delete each other's new recurring runs would leave none;
:mod:`pipelines.cluster.lock` serialises them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from components.errors import KfrecError
from pipelines.cluster.connection import explained, namespace_of
from pipelines.cluster.lock import LockTimes, locked
from pipelines.cluster.recurring import RecurringRun, description, display_name, owned
from pipelines.cluster.removal import Switched, can_orphan, delete, remove, runs_of, switch
from pipelines.cluster.schedules import Schedule, ScheduleFile
from pipelines.cluster.versions import ensure_version
from pipelines.compilation import version_name
from pipelines.defaults import Pipeline

if TYPE_CHECKING:
    from kfp import Client

Check = Callable[[], None]


@dataclass
class Changes:
    """Counts of changes, made or planned, by kind."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1


@dataclass(frozen=True)
class Reconciler:
    """Reconciles KFP with a file.

    Attributes:
        client: of KFP.
        host: its address, for messages.
        compiled: pipeline to its IR YAML.
        dry_run: only report.
        prune: also delete schedules that the file does not name.
        echo: called with each line for the user.
        times: time limits of the lock.
    """

    client: Client
    host: str
    compiled: Callable[[Pipeline], str]
    dry_run: bool = False
    prune: bool = False
    echo: Callable[[str], None] = print
    times: LockTimes = field(default_factory=LockTimes)

    def apply(self, file: ScheduleFile) -> Changes:
        """Makes the required changes and reports them.

        Raises:
            KfrecError: KFP refuses or does not answer; run it again.
        """
        changes = Changes()
        irs = {
            pipeline: self.compiled(pipeline) for pipeline in {schedule.runs for schedule in file.schedules.values()}
        }
        self.echo(f"times are in {file.time_zone.key}, as KFP's scheduler must be set")
        with explained(self.host):
            if self.dry_run:
                self._reconcile(file, irs, changes, lambda: None)
            else:
                with locked(self.client, namespace_of(self.client), self.times) as check:
                    self._reconcile(file, irs, changes, check)
        counts = ", ".join(f"{count} {kind}" for kind, count in changes.counts.items()) or "nothing to do"
        self.echo(f"{'would change: ' if self.dry_run else ''}{counts}")
        return changes

    def _reconcile(self, file: ScheduleFile, irs: Mapping[Pipeline, str], changes: Changes, check: Check) -> None:
        there = owned(self.client)
        for name, schedule in file.schedules.items():
            self._schedule(schedule, irs[schedule.runs], there.pop(name, []), file.time_zone, changes, check)
            times = ", ".join(f"{time:%Y-%m-%d %H:%M:%S %Z}" for time in schedule.next_runs(file.time_zone))
            self.echo(f"  {'paused' if schedule.paused else f'next {times}' if times else 'has ended'}")
        for name, runs in there.items():
            if not self.prune:
                self.echo(f"{name}: not in the file; left alone, --prune deletes it")
                continue
            self.echo(f"- {name}: deleted")
            changes.add("deleted")
            if not self.dry_run:
                self._remove(runs, check)

    def _schedule(
        self,
        schedule: Schedule,
        ir: str,
        runs: list[RecurringRun],
        zone: ZoneInfo,
        changes: Changes,
        check: Check,
    ) -> None:
        digest = schedule.digest(ir)
        # Among equal contents, prefer an enabled one.
        same = sorted((run for run in runs if run.digest == digest), key=lambda run: not run.enabled)
        kept = same[0].id if same else None
        others = [run for run in runs if run.id != kept]
        changes.add(self._report_difference(schedule, ir, same, others))
        if same and same[0].enabled is False and not schedule.paused:
            self._report_missed(schedule, same[0], zone)
        if self.dry_run:
            return
        if kept is not None:
            self._remove(others, check)
            if self._switch(schedule, kept, check) is Switched.DONE:
                return
            check()
            orphan = can_orphan(self.client)
            if not delete(self.client, kept, orphan):
                raise self._changed_meanwhile(schedule)
            self.echo("  its ScheduledWorkflow is gone: recreated")
        kept = self._create(schedule, ir, digest, check)
        # Only a list read after the creation contains all candidates for deletion.
        self._remove([run for run in owned(self.client)[schedule.name] if run.id != kept], check)
        if self._switch(schedule, kept, check) is not Switched.DONE:
            raise self._changed_meanwhile(schedule)

    def _switch(self, schedule: Schedule, kept: str, check: Check) -> Switched:
        """Called even if nothing seems to have changed: KFP's displayed status lags behind."""
        check()
        return switch(self.client, kept, enable=not schedule.paused)

    @staticmethod
    def _changed_meanwhile(schedule: Schedule) -> KfrecError:
        return KfrecError(f"{schedule.name}: it was changed at the same time; run it again")

    def _create(self, schedule: Schedule, ir: str, digest: str, check: Check) -> str:
        """Creates the new recurring run, paused, and returns its identifier."""
        check()
        version = ensure_version(self.client, ir)
        check()
        experiment = self.client.create_experiment(schedule.experiment, namespace=namespace_of(self.client))
        check()
        created: Any = self.client.create_recurring_run(
            experiment.experiment_id,
            display_name(schedule.name, digest),
            description=description(schedule.name, schedule.wanted(ir)),
            start_time=_rfc3339(schedule.starts),
            end_time=_rfc3339(schedule.ends),
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
        return str(created.recurring_run_id)

    def _remove(self, runs: list[RecurringRun], check: Check) -> None:
        if stay := remove(self.client, runs, check):
            self.echo(f"  {stay} older stay{'s' if stay == 1 else ''} paused until its runs have ended")

    def _report_difference(
        self, schedule: Schedule, ir: str, same: list[RecurringRun], others: list[RecurringRun]
    ) -> str:
        """Reports the planned change, and returns its kind."""
        if not same and not others:
            self.echo(f"+ {schedule.name}: created, cron {schedule.cron}, {schedule.runs.name} {version_name(ir)}")
            return "created"
        if same and others:
            self.echo(f"~ {schedule.name}: {len(others)} left from before a change")
            return "changed"
        if same:
            if same[0].enabled == schedule.paused:
                self.echo(f"~ {schedule.name}: {'paused' if schedule.paused else 'resumed'}")
                return "changed"
            self.echo(f"= {schedule.name}: unchanged")
            return "unchanged"
        self.echo(f"~ {schedule.name}: changed")
        before = others[-1].wanted
        for name, value in schedule.wanted(ir).items():
            if before.get(name) != value:
                self.echo(f"    {name}: {_short(before.get(name))} -> {_short(value)}")
        return "changed"

    def _report_missed(self, schedule: Schedule, run: RecurringRun, zone: ZoneInfo) -> None:
        """KFP starts a missed run as soon as the schedule is resumed."""
        ran = (started.scheduled_at or started.created_at for started in runs_of(self.client, run))
        if missed := schedule.missed(zone, max(ran, default=run.created)):
            what = "every missed time runs" if schedule.catch_up else "it runs at once"
            self.echo(f"  missed {missed:%Y-%m-%d %H:%M:%S %Z} while paused; {what}")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _rfc3339(moment: datetime | None) -> str | None:
    """A time in RFC 3339, UTC, as KFP's API expects."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None
