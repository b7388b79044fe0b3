"""Schedules through the official client: what changes, what a killed reconciler leaves, and two at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.errors import KfrecError
from pipelines.cli import main
from pipelines.cluster import lock
from pipelines.cluster.connection import connect
from pipelines.cluster.lock import LockTimes
from pipelines.cluster.reconcile import Reconciler
from pipelines.cluster.schedules import load_schedules
from tests.fakes.kfp_api import KfpApi, Killed

QUICK = LockTimes(life=0.0, work=60.0, wait=20.0, pause=0.01)
NIGHTLY = {"name": "nightly", "pipeline": "training", "cron": "0 0 2 * * *", "parameters": {"epochs": 1}}


def write(path: Path, *schedules: dict[str, Any], time_zone: str = "UTC") -> Path:
    path.write_text(yaml.safe_dump({"time_zone": time_zone, "schedules": list(schedules)}))
    return path


def apply(url: str, ir: str, file: Path, times: LockTimes = QUICK, **options: Any) -> list[str]:
    told: list[str] = []
    client = connect(url)
    Reconciler(client, url, lambda name: ir, tell=told.append, times=times, **options).apply(load_schedules(file))
    return told


def test_a_schedule_file_from_creation_to_deletion(api: KfpApi, url: str, ir: str, tmp_path: Path) -> None:
    file = tmp_path / "schedules.yaml"
    told = apply(url, ir, write(file, NIGHTLY))
    assert told[-1] == "1 created" and any(line.startswith("+ nightly: created, cron 0 0 2 * * *") for line in told)
    (created,) = api.recurring.values()
    assert created["status"] == "ENABLED"
    assert created["trigger"]["cron_schedule"]["cron"] == "0 0 2 * * *"
    assert (int(created["max_concurrency"]), created["no_catchup"]) == (1, True)
    assert created["runtime_config"]["parameters"] == {"epochs": 1}

    assert apply(url, ir, file)[-1] == "1 unchanged"
    assert list(api.recurring) == [created["recurring_run_id"]]

    told = apply(url, ir, write(file, {**NIGHTLY, "cron": "0 30 3 * * *", "parameters": {"epochs": 2}}))
    assert told[-1] == "1 changed"
    assert '    cron: "0 0 2 * * *" -> "0 30 3 * * *"' in told
    assert '    parameters: {"epochs": 1} -> {"epochs": 2}' in told
    (changed,) = api.recurring.values()
    assert changed["status"] == "ENABLED" and changed["recurring_run_id"] != created["recurring_run_id"]

    changed_file = {**NIGHTLY, "cron": "0 30 3 * * *", "parameters": {"epochs": 2}}
    assert "~ nightly: paused" in apply(url, ir, write(file, {**changed_file, "paused": True}))
    assert [r["status"] for r in api.recurring.values()] == ["DISABLED"]
    assert "~ nightly: resumed" in apply(url, ir, write(file, changed_file))
    assert [r["status"] for r in api.recurring.values()] == ["ENABLED"]

    told = apply(url, ir, write(file))
    assert "nightly: not in the file; left alone, --prune deletes it" in told and len(api.recurring) == 1
    assert apply(url, ir, file, prune=True)[-1] == "1 deleted"
    assert api.recurring == {} and api.violations == []
    assert all(e["display_name"] != lock.NAME for e in api.experiments.values())


def test_a_new_pipeline_is_a_change(api: KfpApi, url: str, ir: str, tmp_path: Path) -> None:
    file = write(tmp_path / "schedules.yaml", NIGHTLY)
    apply(url, ir, file)
    told = apply(url, ir + "\n# newer\n", file)
    assert told[-1] == "1 changed" and any(line.startswith("    version: ") for line in told)
    assert len(api.recurring) == 1 and len(api.versions) == 2


def test_a_dry_run_changes_nothing(api: KfpApi, url: str, ir: str, tmp_path: Path) -> None:
    file = write(tmp_path / "schedules.yaml", NIGHTLY)
    assert apply(url, ir, file, dry_run=True)[-1] == "would change: 1 created"
    assert {method for method, _ in api.calls} == {"GET"}
    apply(url, ir, file)
    before = json.dumps(api.recurring)
    write(file, {**NIGHTLY, "cron": "0 0 4 * * *"})
    assert apply(url, ir, file, dry_run=True, prune=True)[-1] == "would change: 1 changed"
    assert json.dumps(api.recurring) == before


def test_the_recurring_runs_of_others_are_never_touched(api: KfpApi, url: str, ir: str, tmp_path: Path) -> None:
    for name in ("nightly", "kfrec-nightly-12345678", "somebody's"):
        api.recurring[name] = {"recurring_run_id": name, "display_name": name, "status": "ENABLED",
                               "created_at": "2026-01-01T00:00:00Z"}  # fmt: skip
    apply(url, ir, write(tmp_path / "schedules.yaml", NIGHTLY), prune=True)
    assert {"nightly", "kfrec-nightly-12345678", "somebody's"} < set(api.recurring)


def test_recurring_runs_are_found_on_any_page(api: KfpApi, url: str, ir: str, tmp_path: Path) -> None:
    api.page_limit = 2
    schedules = [{**NIGHTLY, "name": f"nightly-{n}"} for n in range(5)]
    file = write(tmp_path / "schedules.yaml", *schedules)
    apply(url, ir, file)
    assert apply(url, ir, file)[-1] == "5 unchanged"


def calls_of_a_change(ir: str, tmp_path: Path) -> int:
    """How many requests it takes to change a schedule."""
    api = KfpApi()
    with api.served() as url:
        apply(url, ir, write(tmp_path / "a.yaml", NIGHTLY))
        before = len(api.calls)
        apply(url, ir, write(tmp_path / "b.yaml", {**NIGHTLY, "cron": "0 0 4 * * *"}))
        return len(api.calls) - before


def test_a_reconciler_killed_at_any_call_leaves_one_schedule_at_most_and_the_next_goes_on(
    ir: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    total = calls_of_a_change(ir, tmp_path)
    assert total > 8
    for kill_at in range(total):
        api = KfpApi()
        with api.served() as url:
            apply(url, ir, write(tmp_path / "a.yaml", NIGHTLY))
            begun = len(api.calls)

            def kill(number: int, last: int = begun + kill_at) -> None:
                if number >= last:
                    raise Killed

            api.before_call = kill
            changed = write(tmp_path / "b.yaml", {**NIGHTLY, "cron": "0 0 4 * * *"})
            # The last call gives the lock back, which is no reason to fail.
            with pytest.raises(KfrecError) if kill_at < total - 1 else nullcontext():
                apply(url, ir, changed)
            assert len(api.enabled("nightly")) <= 1
            api.before_call = lambda number: None
            apply(url, ir, changed)
            (run,) = api.recurring.values()
            assert (run["status"], run["trigger"]["cron_schedule"]["cron"]) == ("ENABLED", "0 0 4 * * *")
            assert api.violations == []


@pytest.mark.parametrize("lost", [("POST", "recurringruns"), ("POST", ":disable"), ("POST", ":enable"),
                                  ("DELETE", "recurringruns"), ("POST", "experiments")])  # fmt: skip
def test_an_answer_that_got_lost_does_no_harm(
    api: KfpApi, url: str, ir: str, tmp_path: Path, lost: tuple[str, str]
) -> None:
    file = tmp_path / "schedules.yaml"
    apply(url, ir, write(file, NIGHTLY))
    write(file, {**NIGHTLY, "cron": "0 0 4 * * *"})
    api.lose_answer_of = lost
    for _ in range(2):
        try:
            apply(url, ir, file)
        except KfrecError as error:
            assert "\n" not in str(error)
    (run,) = api.recurring.values()
    assert run["status"] == "ENABLED" and api.violations == []


@pytest.mark.parametrize("seed", range(6))
def test_two_reconcilers_at_once_never_have_two_schedules_enabled(
    api: KfpApi, url: str, ir: str, tmp_path: Path, seed: int
) -> None:
    import random

    apply(url, ir, write(tmp_path / "old.yaml", NIGHTLY))
    files = [write(tmp_path / f"{n}.yaml", {**NIGHTLY, "cron": f"0 0 {n + 4} * * *"}) for n in range(2)]
    drawn = random.Random(seed)
    api.before_call = lambda number: time.sleep(drawn.random() * 0.01)
    times = LockTimes(life=60.0, work=30.0, wait=30.0, pause=0.005)
    failures: list[BaseException] = []

    def reconcile(file: Path) -> None:
        try:
            apply(url, ir, file, times)
        except BaseException as error:  # told by the test
            failures.append(error)

    threads = [threading.Thread(target=reconcile, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == [] and api.violations == []
    (run,) = api.recurring.values()
    assert run["status"] == "ENABLED"
    assert run["trigger"]["cron_schedule"]["cron"] in ("0 0 4 * * *", "0 0 5 * * *")


def test_a_lock_held_by_someone_else_is_waited_for_and_then_told(
    api: KfpApi, url: str, ir: str, tmp_path: Path
) -> None:
    api.create_experiment({}, {"display_name": lock.NAME})
    times = LockTimes(life=60.0, work=30.0, wait=0.2, pause=0.01)
    with pytest.raises(KfrecError, match=r"someone else is changing schedules for more than 0\.2 s"):
        apply(url, ir, write(tmp_path / "schedules.yaml", NIGHTLY), times)
    assert api.recurring == {}


def test_a_holder_whose_time_is_up_stops(api: KfpApi, url: str, ir: str, tmp_path: Path) -> None:
    times = LockTimes(life=60.0, work=0.0, wait=1.0, pause=0.01)
    with pytest.raises(KfrecError, match="this took longer than 0 s; run it again"):
        apply(url, ir, write(tmp_path / "schedules.yaml", NIGHTLY), times)
    assert api.recurring == {}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda s: s.update(cron="0 2 * * *"), "has 5 fields, KFP's has 6, seconds first; write '0 0 2 * * *'"),
        (lambda s: s.update(cron="0 0 25 * * *"), "is not valid"),
        (lambda s: s.update(cron="* 0 2 * * *"), "runs more than once a minute"),
        (lambda s: s.update(cron="0 0 2 L * *"), "KFP's scheduler knows no L, W and #"),
        (lambda s: s.update(name="Nightly Run"), "use small letters, digits and dashes"),
        (lambda s: s.update(pipeline="trainning"), "is not one of training"),
        (lambda s: s.update(max_concurrency=0), "must be at least 1"),
        (lambda s: s.update(start="tomorrow"), "is not a time"),
        (lambda s: s.update(start="2026-01-01T00:00:00"), "is not a time"),
        (lambda s: s.update(parameters={"epoch": 1}), "unknown parameter epoch: did you mean epochs?"),
        (lambda s: s.update(catchup=True), "unknown parameter catchup: did you mean catch_up?"),
        (lambda s: s.update(catch_up="no"), "is not true or false"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(tmp_path: Path, change: Callable[[dict], object], told: str) -> None:
    schedule = dict(NIGHTLY)
    change(schedule)
    with pytest.raises(KfrecError) as error:
        load_schedules(write(tmp_path / "schedules.yaml", schedule))
    assert "schedules.yaml: schedule 1" in str(error.value) and told in str(error.value)
    assert "\n" not in str(error.value)


def test_the_time_zone_has_to_be_stated(tmp_path: Path) -> None:
    file = tmp_path / "schedules.yaml"
    file.write_text("schedules: []\n")
    with pytest.raises(KfrecError, match="states no time_zone; write that of KFP's scheduler"):
        load_schedules(file)
    with pytest.raises(KfrecError, match="time_zone 'Mars/North' is not known"):
        load_schedules(write(file, time_zone="Mars/North"))


def test_a_name_used_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match="the name nightly is used twice"):
        load_schedules(write(tmp_path / "schedules.yaml", NIGHTLY, NIGHTLY))


def test_the_next_runs_are_told_in_the_time_zone(api: KfpApi, url: str, ir: str, tmp_path: Path) -> None:
    told = apply(url, ir, write(tmp_path / "schedules.yaml", NIGHTLY, time_zone="Europe/Berlin"))
    assert told[0] == "times are in Europe/Berlin, as KFP's scheduler must be set"
    (line,) = [line for line in told if line.startswith("  next ")]
    assert line.count("02:00:00 CE") == 3


def test_the_command_applies_a_file(api: KfpApi, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "schedules.yaml", {**NIGHTLY, "start": "2026-12-01T00:00:00+01:00"})
    assert main(["schedule", "apply", "-f", str(file), "--endpoint", url]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 created"
    (run,) = api.recurring.values()
    assert run["trigger"]["cron_schedule"]["start_time"] == "2026-11-30T23:00:00Z"
    assert main(["schedule", "apply", "-f", str(tmp_path / "none.yaml"), "--endpoint", url]) == 2
    assert "none.yaml: cannot be read" in capsys.readouterr().err
