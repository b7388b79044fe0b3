"""Schedules: CronJobs whose pods call ``kfrec submit``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.cli import main, parser
from pipelines.cli.options import pipeline_of
from pipelines.cluster.submit import checked_for_cluster
from pipelines.parameters import parse_assignment
from tests.fakes.kfp_api import KfpApi
from tests.manifests.pods import violations
from tests.manifests.test_manifests import MANIFESTS, OVERLAYS, beside, build

__all__ = ["beside"]
Json = dict[str, Any]
OWN = yaml.safe_load((MANIFESTS / "components/schedules/nightly.yaml").read_text())

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.usefixtures("compiled_once"),
]


def schedules(objects: list[Json]) -> dict[str, Json]:
    jobs = {body["metadata"]["name"]: body["spec"] for body in objects if body["kind"] == "CronJob"}
    return {name: spec for name, spec in jobs.items() if name != "kfrec-doctor"}


def words_of(schedule: Json, objects: list[Json]) -> list[str]:
    """The command's words, with variables as Kubernetes replaces them."""
    (container,) = schedule["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    maps = {body["metadata"]["name"]: body["data"] for body in objects if body["kind"] == "ConfigMap"}
    values = {"NAMESPACE": "ns"}
    for entry in container["env"]:
        if reference := entry.get("valueFrom", {}).get("configMapKeyRef"):
            values[entry["name"]] = maps[reference["name"]][reference["key"]]
    return [re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], word) for word in container["args"]]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_schedule_is_a_command_that_the_cluster_takes(overlay: str) -> None:
    objects = build(MANIFESTS / "overlays" / overlay)
    kinds = set()
    for name, schedule in schedules(objects).items():
        options = parser().parse_args(words_of(schedule, objects))
        values = checked_for_cluster(dict(parse_assignment(text) for text in options.set), pipeline_of(options))
        assert options.schedule == name and options.unless_running
        assert options.service_account == "kfrec-pipeline" and options.namespace == ("ns" * (overlay == "kubeflow"))
        (where,) = (values[name] for name in ("source", "data_prefix") if name in values)
        assert where.startswith(("s3://", "gs://"))
        kinds.add(options.pipeline)
    assert kinds == {"training", "retraining", "recommendation"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_schedule_starts_one_job_at_a_time_and_none_before_it_is_asked_to(overlay: str) -> None:
    for name, schedule in schedules(build(MANIFESTS / "overlays" / overlay)).items():
        assert schedule["suspend"] is True and schedule["concurrencyPolicy"] == "Forbid"
        assert schedule["timeZone"] == "Etc/UTC" and len(schedule["schedule"].split()) == 5
        assert len(name) <= 52, "Kubernetes adds eleven characters to a job's name"
        job = schedule["jobTemplate"]["spec"]
        assert job["template"]["spec"]["restartPolicy"] == "Never" and job["backoffLimit"] > 0
        # Later than that the CronJob counts it as missed; a job of this schedule has ended by then or is stopped.
        assert schedule["startingDeadlineSeconds"] >= 60 and job["activeDeadlineSeconds"] <= 3600
        assert schedule["successfulJobsHistoryLimit"] and schedule["failedJobsHistoryLimit"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kfrec-lists", "kfrec-nightly", "kfrec-weekly"])
def test_what_the_pod_does_starts_a_run_and_no_second_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = build(MANIFESTS / "overlays/standalone")
    words = words_of(schedules(objects)[name], objects)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))  # the image's file system is read-only
    monkeypatch.setenv("KFREC_REGISTRY", "registry.example.org")  # of kfrec-config
    api = KfpApi()
    with api.served() as url:
        monkeypatch.setenv("KFP_ENDPOINT", url)
        assert [main(words), main(words)] == [0, 0]
    (run,) = api.runs.values()
    assert run["display_name"].startswith(f"{name} ") and run["service_account"] == "kfrec-pipeline"
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"not started: run {run['display_name']!r} is pending")
    assert not (tmp_path / "none").exists()


_KFP = "pipelines.kubeflow.org"


def test_the_rights_of_a_schedule_are_those_that_kfp_asks_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = build(MANIFESTS / "overlays/kubeflow")
    words = words_of(schedules(objects)["kfrec-nightly"], objects)
    (rules,) = [b["rules"] for b in objects if (b["kind"], b["metadata"]["name"]) == ("Role", "kfrec-schedule")]
    kinds = {_KFP: "{}", "": "{}/kfrec-pipeline"}
    api = KfpApi()
    api.multi_user, api.allowed_accounts = True, {"kfrec-pipeline"}
    granted = api.rights = {
        (kinds[group].format(resource), verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KFREC_REGISTRY", "registry.example.org")
    with api.served() as url:
        monkeypatch.setenv("KFP_ENDPOINT", url)
        assert [main(words), main(words)] == [0, 0] and len(api.runs) == 1
        for needed in ("runs", "list"), ("runs", "create"), ("serviceaccounts/kfrec-pipeline", "use"):
            api.runs.clear()
            api.rights = granted - {needed}
            assert main(words) == 2 and not api.runs
            assert f"Verb:{needed[1]} Resource:{needed[0]}" in capsys.readouterr().err


def test_a_schedule_of_ones_own_is_short_and_gets_what_all_share(beside: Callable[..., list[Json]]) -> None:
    own = {**OWN, "metadata": {**OWN["metadata"], "name": "kfrec-monthly"}}
    found = schedules(beside("schedules", own=own))
    assert set(found) == {"kfrec-lists", "kfrec-nightly", "kfrec-weekly", "kfrec-monthly"}
    assert found["kfrec-monthly"] == found["kfrec-nightly"]
    assert violations(found["kfrec-monthly"]["jobTemplate"]["spec"]["template"]["spec"]) == []


def test_a_cronjob_of_others_is_left_as_it_is(beside: Callable[..., list[Json]]) -> None:
    other = {**OWN, "metadata": {"name": "other"}}
    assert schedules(beside("schedules", own=other))["other"] == OWN["spec"]


def test_the_page_names_the_files_that_exist() -> None:
    page = (Path(__file__).parents[2] / "docs/schedule-retraining.md").read_text()
    named = re.findall(r"`(manifests/[\w/.-]+)`", page)
    assert named and all((MANIFESTS.parent / name).exists() for name in named)
