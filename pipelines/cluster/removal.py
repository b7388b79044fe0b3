"""Deletes recurring runs but not the runs that they started.

A recurring run's ScheduledWorkflow owns its workflows: a cascading deletion would delete their pods and MPIJobs too.
KFP 2.16 and later can orphan them (``propagation_policy=ORPHAN``). With older versions, a recurring run stays paused
until its runs have ended, and a later call deletes it. KFP lists a run some seconds after its workflow began, so a
recurring run that was still enabled when this call began stays too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

from pipelines.cluster.connection import pages, server_version, status_of
from pipelines.cluster.progress import ENDED
from pipelines.cluster.recurring import RecurringRun

if TYPE_CHECKING:
    from kfp import Client

# The first version that can delete a recurring run without its runs.
ORPHANS = (2, 16)
# KFP then answers 500, also to every retry; only deletion works.
_NO_WORKFLOW = re.compile(r"scheduledworkflows?\.kubeflow\.org .*not found")


class Switched(Enum):
    """The outcome of enabling or disabling a recurring run."""

    DONE = "done"
    GONE = "gone"  # there is no such recurring run
    BROKEN = "broken"  # KFP has it, but its ScheduledWorkflow is gone: it never runs again


def switch(client: Client, identifier: str, enable: bool) -> Switched:
    """Enables or disables a recurring run."""
    from kfp_server_api import ApiException

    try:
        (client.enable_recurring_run if enable else client.disable_recurring_run)(identifier)
    except ApiException as error:
        if _NO_WORKFLOW.search(str(error.body)):
            return Switched.BROKEN
        if status_of(error) == 404:
            return Switched.GONE
        raise
    return Switched.DONE


def can_orphan(client: Client) -> bool:
    """Whether the server can delete a recurring run without its runs; False if its version is unknown."""
    return (server_version(client) or (0, 0)) >= ORPHANS


def remove(client: Client, runs: list[RecurringRun], check: Callable[[], None]) -> int:
    """Disables all recurring runs, then deletes those without open runs, or all if KFP can orphan runs.

    Args:
        client: of KFP.
        runs: the listed recurring runs.
        check: called before each change.

    Returns:
        Number of disabled recurring runs that stay until their runs have ended.
    """
    if not runs:
        return 0
    broken = set()
    for run in runs:
        check()
        if switch(client, run.id, enable=False) is Switched.BROKEN:
            broken.add(run.id)
    orphan = can_orphan(client)
    stay = 0
    for run in runs:
        if orphan or run.id in broken or (run.enabled is False and not _has_open_runs(client, run)):
            check()
            delete(client, run.id, orphan)
        else:
            stay += 1
    return stay


def delete(client: Client, identifier: str, orphan: bool) -> bool:
    """Deletes a recurring run; False where it does not exist any more."""
    from kfp_server_api import ApiException

    # The client's method lacks the policy parameter.
    api: Any = client._recurring_run_api.api_client
    try:
        api.call_api(
            "/apis/v2beta1/recurringruns/{recurring_run_id}",
            "DELETE",
            {"recurring_run_id": identifier},
            [("propagation_policy", "ORPHAN")] if orphan else [],
            {"Accept": "application/json"},
            response_type="object",
            auth_settings=["Bearer"],
        )
    except ApiException as error:
        if status_of(error) != 404:
            raise
        return False
    return True


def runs_of(client: Client, recurring: RecurringRun) -> Iterator[Any]:
    """The runs that a recurring run started, newest first.

    KFP has no filter for them. Paging stops at the recurring run's creation: no run of it is older.
    """
    for page in pages(client.list_runs, sort_by="created_at desc", experiment_id=recurring.experiment):
        for run in page.runs or ():
            if run.created_at < recurring.created:
                return
            if run.recurring_run_id == recurring.id:
                yield run


def _has_open_runs(client: Client, recurring: RecurringRun) -> bool:
    return any(run.state not in ENDED for run in runs_of(client, recurring))
