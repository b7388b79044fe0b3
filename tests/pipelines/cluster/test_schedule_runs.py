"""What becomes of a schedule's runs when the schedule changes, is resumed, or has lost its scheduler's object."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.fakes.kfp_api import KfpApi
from tests.pipelines.cluster.reconciling import NIGHTLY, apply, write

CHANGED = {**NIGHTLY, "cron": "0 0 4 * * *"}


@pytest.fixture
def running(api: KfpApi, url: str, tmp_path: Path) -> tuple[str, str]:
    """A schedule's recurring run and a run of it that trains."""
    apply(url, write(tmp_path / "schedules.yaml", NIGHTLY))
    (recurring,) = api.recurring
    return recurring, api.fire(recurring)


@pytest.mark.parametrize("version", ["2.16.0", "2.17.1", "2.16.0-rc.1"])
def test_a_change_leaves_the_training_running(
    api: KfpApi, url: str, tmp_path: Path, running: tuple[str, str], version: str
) -> None:
    api.version = version
    apply(url, write(tmp_path / "schedules.yaml", CHANGED))
    (left,) = api.recurring.values()
    assert (left["status"], left["trigger"]["cron_schedule"]["cron"]) == ("ENABLED", CHANGED["cron"])
    assert api.killed == []


@pytest.mark.parametrize("version", ["2.5.0", "2.15.2", "unknown", ""])
def test_before_2_16_the_old_one_stays_paused_until_its_run_has_ended(
    api: KfpApi, url: str, tmp_path: Path, running: tuple[str, str], version: str
) -> None:
    old, run = running
    api.version = version
    file = write(tmp_path / "schedules.yaml", CHANGED)
    for _ in range(3):
        told = apply(url, file)
        assert "  1 older stays paused until its runs have ended" in told
        (new,) = (r for r in api.recurring.values() if r["recurring_run_id"] != old)
        assert (api.recurring[old]["status"], new["status"]) == ("DISABLED", "ENABLED")
    api.runs[run]["state"] = "SUCCEEDED"
    apply(url, file)
    assert old not in api.recurring and api.killed == api.violations == []
    assert apply(url, file)[-1] == "1 unchanged"


def test_before_2_16_a_run_that_has_just_begun_is_waited_for(api: KfpApi, url: str, tmp_path: Path) -> None:
    """KFP lists a run a while after its workflow began: what was enabled a moment ago may have one."""
    api.version = "2.15.0"
    apply(url, write(tmp_path / "schedules.yaml", NIGHTLY))
    (old,) = api.recurring
    file = write(tmp_path / "schedules.yaml", CHANGED)
    apply(url, file)
    run = api.fire(old)
    apply(url, file)
    assert old in api.recurring and api.killed == []
    api.runs[run]["state"] = "FAILED"
    apply(url, file)
    assert len(api.recurring) == 1 and api.killed == []


def test_going_back_to_the_old_one_before_its_run_has_ended(
    api: KfpApi, url: str, tmp_path: Path, running: tuple[str, str]
) -> None:
    api.version = "2.15.0"
    for schedule in (CHANGED, NIGHTLY, NIGHTLY):
        apply(url, write(tmp_path / "schedules.yaml", schedule))
    (left,) = api.recurring.values()
    assert (left["recurring_run_id"], left["status"]) == (running[0], "ENABLED")
    assert api.killed == api.violations == []


@pytest.mark.parametrize("version", ["2.15.0", "2.16.0"])
def test_pruning_leaves_the_training_running(
    api: KfpApi, url: str, tmp_path: Path, running: tuple[str, str], version: str
) -> None:
    api.version = version
    file = write(tmp_path / "schedules.yaml")
    apply(url, file, prune=True)
    api.runs[running[1]]["state"] = "CANCELED"
    apply(url, file, prune=True)
    assert api.recurring == {} and api.killed == []


@pytest.mark.parametrize("version", ["2.15.0", "2.17.0"])
@pytest.mark.parametrize("wanted", [NIGHTLY, CHANGED, {**NIGHTLY, "paused": True}])
def test_one_whose_scheduled_workflow_is_gone_is_made_anew(
    api: KfpApi, url: str, tmp_path: Path, running: tuple[str, str], wanted: dict[str, object], version: str
) -> None:
    api.version = version
    api.without_workflow.add(running[0])
    file = write(tmp_path / "schedules.yaml", wanted)
    apply(url, file)
    (left,) = api.recurring.values()
    assert left["recurring_run_id"] != running[0]
    assert left["status"] == ("DISABLED" if wanted.get("paused") else "ENABLED")
    assert apply(url, file)[-1] == "1 unchanged" and api.violations == []


@pytest.mark.parametrize("catch_up", [False, True])
def test_what_a_schedule_missed_while_paused_is_told_before_it_is_resumed(
    api: KfpApi, url: str, tmp_path: Path, catch_up: bool
) -> None:
    file, schedule = tmp_path / "schedules.yaml", {**NIGHTLY, "catch_up": catch_up}
    apply(url, write(file, {**schedule, "paused": True}))
    (recurring,) = api.recurring.values()
    now = datetime.now(timezone.utc)
    recurring["created_at"] = (now - timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    latest = (now if now.hour >= 2 else now - timedelta(days=1)).strftime("%Y-%m-%d 02:00:00 UTC")
    line = f"  missed {latest} while paused; " + ("every missed time runs" if catch_up else "it runs at once")
    assert line in apply(url, write(file, schedule), dry_run=True) and api.runs == {}
    assert line in apply(url, file)
    (run,) = api.runs.values()
    assert run["scheduled_at"] == latest.replace(" UTC", "Z").replace(" ", "T")
    assert not any("missed" in told for told in apply(url, file))


def test_a_schedule_that_missed_nothing_says_nothing(api: KfpApi, url: str, tmp_path: Path) -> None:
    file = tmp_path / "schedules.yaml"
    apply(url, write(file, {**NIGHTLY, "paused": True}))
    assert not any("missed" in told for told in apply(url, write(file, NIGHTLY))) and api.runs == {}
