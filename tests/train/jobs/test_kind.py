from __future__ import annotations

from typing import Any

import pytest

from components.cluster.pods import exit_of
from components.train.jobs.kind import BAD_INPUT
from components.train.mpijob.job import KIND

KNOWN = {"w-0": "uid-w-0", "w-1": "uid-w-1"}


def pod(name: str, role: str = "worker", phase: str = "Running", **status: Any) -> dict[str, Any]:
    labels = {"training.kubeflow.org/job-role": role}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}, "status": {"phase": phase, **status}}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"containerStatuses": [{"state": {"terminated": {"exitCode": code, "reason": reason}}}]}


def test_workers_that_run_or_wait_are_not_lost() -> None:
    pods = [pod("w-0"), pod("w-1", phase="Pending")]
    assert KIND.lost_worker(pods, {}) == ""
    assert KIND.running_workers(pods) == {"w-0": "uid-w-0"}
    assert KIND.lost_worker([pod("w-0"), pod("w-1")], KNOWN) == ""


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (pod("w-1", phase="Failed", reason="Evicted", message="low on memory"), "w-1: Evicted: low on memory"),
        (pod("w-1", phase="Failed", reason="Terminated"), "w-1: Terminated"),
        (pod("w-1", phase="Failed", **ended(137, "OOMKilled")), "w-1: OOMKilled, exit code 137"),
        (pod("w-1", phase="Failed"), "w-1: failed"),
    ],
)
def test_a_worker_that_failed_is_lost_with_its_reason(second: dict[str, Any], told: str) -> None:
    assert KIND.lost_worker([pod("w-0"), second], {}) == told


def test_a_worker_that_is_being_deleted_or_was_replaced_or_is_gone_is_lost() -> None:
    leaving, other = pod("w-1"), pod("w-1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    other["metadata"]["uid"] = "another"
    assert KIND.lost_worker([pod("w-0"), leaving], KNOWN) == "w-1: being deleted from its node"
    assert KIND.lost_worker([pod("w-0"), other], KNOWN) == "w-1: was deleted from its node"
    assert KIND.lost_worker([pod("w-0")], KNOWN) == "w-1: was deleted from its node"


def test_a_launcher_that_ended_is_no_lost_worker_and_only_status_2_is_bad_input() -> None:
    for status, expected in ((1, False), (2, True), (3, False), (137, False)):
        launcher = pod("l", role="launcher", phase="Failed", **ended(status))
        assert KIND.lost_worker([pod("w-0"), pod("w-1"), launcher], KNOWN) == ""
        assert KIND.exited([pod("w-0"), launcher], BAD_INPUT) is expected
        assert exit_of(launcher) == f"Error, exit code {status}"
