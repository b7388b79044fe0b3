"""Schedules through the official client: what is created, changed, paused, deleted and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.cluster import lock
from tests.fakes.kfp_api import KfpApi
from tests.pipelines.cluster.reconciling import IR, NIGHTLY, apply, write


def test_a_schedule_file_from_creation_to_deletion(api: KfpApi, url: str, tmp_path: Path) -> None:
    file = tmp_path / "schedules.yaml"
    told = apply(url, write(file, NIGHTLY))
    assert told[-1] == "1 created" and any(line.startswith("+ nightly: created, cron 0 0 2 * * *") for line in told)
    (created,) = api.recurring.values()
    assert created["status"] == "ENABLED"
    assert created["trigger"]["cron_schedule"]["cron"] == "0 0 2 * * *"
    assert (int(created["max_concurrency"]), created["no_catchup"]) == (1, True)
    assert created["runtime_config"]["parameters"] == {"epochs": 1}

    assert apply(url, file)[-1] == "1 unchanged"
    assert list(api.recurring) == [created["recurring_run_id"]]

    told = apply(url, write(file, {**NIGHTLY, "cron": "0 30 3 * * *", "parameters": {"epochs": 2}}))
    assert told[-1] == "1 changed"
    assert '    cron: "0 0 2 * * *" -> "0 30 3 * * *"' in told
    assert '    parameters: {"epochs": 1} -> {"epochs": 2}' in told
    (changed,) = api.recurring.values()
    assert changed["status"] == "ENABLED" and changed["recurring_run_id"] != created["recurring_run_id"]

    changed_file = {**NIGHTLY, "cron": "0 30 3 * * *", "parameters": {"epochs": 2}}
    assert "~ nightly: paused" in apply(url, write(file, {**changed_file, "paused": True}))
    assert [r["status"] for r in api.recurring.values()] == ["DISABLED"]
    assert "~ nightly: resumed" in apply(url, write(file, changed_file))
    assert [r["status"] for r in api.recurring.values()] == ["ENABLED"]

    told = apply(url, write(file))
    assert "nightly: not in the file; left alone, --prune deletes it" in told and len(api.recurring) == 1
    assert apply(url, file, prune=True)[-1] == "1 deleted"
    assert api.recurring == {} and api.violations == []
    assert all(e["display_name"] != lock.NAME for e in api.experiments.values())


def test_a_new_pipeline_is_a_change(api: KfpApi, url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "schedules.yaml", NIGHTLY)
    apply(url, file)
    told = apply(url, file, IR + "# newer\n")
    assert told[-1] == "1 changed" and any(line.startswith("    version: ") for line in told)
    assert len(api.recurring) == 1 and len(api.versions) == 2


def test_a_dry_run_changes_nothing(api: KfpApi, url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "schedules.yaml", NIGHTLY)
    assert apply(url, file, dry_run=True)[-1] == "would change: 1 created"
    assert {method for method, _ in api.calls} == {"GET"}
    apply(url, file)
    before = json.dumps(api.recurring)
    write(file, {**NIGHTLY, "cron": "0 0 4 * * *"})
    assert apply(url, file, dry_run=True, prune=True)[-1] == "would change: 1 changed"
    assert json.dumps(api.recurring) == before


def test_the_recurring_runs_of_others_are_never_touched(api: KfpApi, url: str, tmp_path: Path) -> None:
    for name in ("nightly", "kfrec-nightly-12345678", "somebody's"):
        api.recurring[name] = {"recurring_run_id": name, "display_name": name, "status": "ENABLED",
                               "created_at": "2026-01-01T00:00:00Z"}  # fmt: skip
    apply(url, write(tmp_path / "schedules.yaml", NIGHTLY), prune=True)
    assert {"nightly", "kfrec-nightly-12345678", "somebody's"} < set(api.recurring)


def test_recurring_runs_are_found_on_any_page(api: KfpApi, url: str, tmp_path: Path) -> None:
    api.page_limit = 2
    schedules = [{**NIGHTLY, "name": f"nightly-{n}"} for n in range(5)]
    file = write(tmp_path / "schedules.yaml", *schedules)
    apply(url, file)
    assert apply(url, file)[-1] == "5 unchanged"


def test_the_next_runs_are_told_in_the_time_zone(api: KfpApi, url: str, tmp_path: Path) -> None:
    told = apply(url, write(tmp_path / "schedules.yaml", NIGHTLY, time_zone="Europe/Berlin"))
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


def test_schedules_of_a_user_are_made_in_the_users_namespace(api: KfpApi, url: str, tmp_path: Path) -> None:
    api.multi_user = True
    file = write(tmp_path / "schedules.yaml", NIGHTLY, namespace="ann")
    assert main(["schedule", "apply", "-f", str(file), "--endpoint", url]) == 0
    (run,) = api.recurring.values()
    assert run["namespace"] == "ann"
    apply(url, write(tmp_path / "none.yaml"), namespace="bob", prune=True)
    assert list(api.recurring) == [run["recurring_run_id"]]


def test_a_schedule_tells_its_runs_between_its_start_and_its_end(api: KfpApi, url: str, tmp_path: Path) -> None:
    begins = {**NIGHTLY, "start": "2090-01-01T00:00:00Z", "end": "2090-01-02T12:00:00Z"}
    ended = {**NIGHTLY, "name": "ended", "end": "2020-01-01T00:00:00Z"}
    told = apply(url, write(tmp_path / "schedules.yaml", begins, ended))
    assert "  next 2090-01-01 02:00:00 UTC, 2090-01-02 02:00:00 UTC" in told and "  has ended" in told
