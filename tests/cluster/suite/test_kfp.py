"""A real KFP: what ``kfrec submit`` and a schedule start, a new name's nights, a terminated run, and the exit task.

They run on a cluster that has KFP in the namespace of the suite; a node of our own has it if somebody has put it there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import Client
from mlflow import MlflowClient

from components.download.step import run as download
from components.steps.catalog import STEPS
from pipelines.cli import main
from tests.cluster import kubectl as k8s
from tests.cluster.servers import ADDRESS
from tests.cluster.steps import BUCKET, Place
from tests.cluster.suite.conftest import SMALL_LAUNCHER, VALUES, forwarded, node_folder, patched_settings, store
from tests.fakes.handler import QuietHandler, serving

Json = dict[str, Any]
NAME, LOGS, SCHEDULE = "nights-of-a-new-name", "nights", "kfrec-nightly"
# A night's training is short; its data are below a prefix.
NIGHT = {name: value for name, value in VALUES.items() if not name.startswith("synthetic_")}
NIGHT |= {"epochs": 1, "data_prefix": f"s3://{BUCKET}/{LOGS}", "registered_model": NAME, "refit": False}
MODEL = "kfrec-ctr"


@pytest.fixture(scope="module")
def url(place: Place) -> Iterator[str]:
    if k8s.found(place.namespace, "deployment", "ml-pipeline") is None:
        pytest.skip("the cluster has no KFP, so kfrec submit has nothing to start a run with")
    with (
        forwarded(place.namespace, "service/ml-pipeline", 8888) as address,
        patched_settings(place, *SMALL_LAUNCHER),
    ):
        yield address


@pytest.fixture(scope="module")
def told(place: Place) -> Iterator[list[Json]]:
    """What a webhook gets that the secret of the notices names."""
    node_folder()  # whose pods reach this process
    taken: list[Json] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            taken.append(json.loads(self.body()))
            self.reply(200, b"")

    with serving(Handler, ADDRESS) as address:
        hook = f"--from-literal=KFREC_WEBHOOK={address}/hook"
        k8s.kubectl("-n", place.namespace, "create", "secret", "generic", "kfrec-notices", hook)
        yield taken
        k8s.kubectl("-n", place.namespace, "delete", "secret", "kfrec-notices")


@pytest.fixture
def submit(place: Place, url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs ``kfrec submit``; returns its status, and what it says."""

    def run(*words: str, settings: Path = place.settings, **values: Any) -> tuple[int, str]:
        given = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        given += ["--settings", str(settings), "--registry", place.registry, "--service-account", place.account]
        status = main(["submit", "--model=din", *words, *given, "--endpoint", url, "--no-cache"])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


@pytest.fixture
def with_exit_task(place: Place, tmp_path: Path) -> Path:
    """The settings of the suite, with a task that tells how a run has ended."""
    settings = yaml.safe_load(place.settings.read_text())
    secrets = {"kfrec-notices": "/etc/kfrec/notices", "kfrec-mlflow": "/etc/kfrec/mlflow"}
    settings["exit_task"] = {"cpu": "100m", "memory": "1Gi", "secrets": secrets}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path / "settings.yaml"


def add_night(folder: Path, day: str, users: int) -> None:
    download(STEPS["download"].of(synthetic_users=users, synthetic_items=300), raw=folder / day)
    for file in (folder / day).glob("*.gz"):
        store().upload_file(str(file), BUCKET, f"{LOGS}/{day}/{file.name}")


def scheduled(place: Place, client: Client, job: str, values: Json) -> tuple[str, str]:
    """The state of the run that a job of the CronJob has started, when it has ended, and its name."""
    cron = k8s.found(place.namespace, "cronjob", SCHEDULE)
    assert cron is not None
    spec = cron["spec"]["jobTemplate"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    container["args"] = [word for word in container["args"] if not word.startswith(("--model", "--set"))]
    container["args"] += ["--model=din", "--no-cache", "--settings=/settings/settings.yaml"]
    container["args"] += [f"--set={name}={value}" for name, value in values.items()]
    container["volumeMounts"].append({"name": "settings", "mountPath": "/settings"})
    pod["volumes"].append({"name": "settings", "configMap": {"name": job}})
    metadata = {"name": job, "namespace": place.namespace}
    settings = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}
    settings["data"] = {"settings.yaml": place.settings.read_text()}
    k8s.apply([settings, {"kind": "Job", "apiVersion": "batch/v1", "metadata": metadata, "spec": spec}])
    k8s.kubectl("-n", place.namespace, "wait", "--for=condition=complete", f"job/{job}", "--timeout=600s")
    said = k8s.kubectl("-n", place.namespace, "logs", f"job/{job}")
    run = client.wait_for_run_completion(run_of(said), timeout=1800, sleep_duration=5)
    return str(run.state), str(run.display_name)


def run_of(said: str) -> str:
    """The id of the run that a command has started."""
    found = re.search(r"/#/runs/details/([\w-]+)", said)
    assert found, said
    return found[1]


def test_a_training_that_kfrec_submit_starts_ends_with_a_registered_model(
    submit: Callable[..., tuple[int, str]], tracked: MlflowClient
) -> None:
    earlier = len(tracked.search_model_versions(f"name='{MODEL}'"))
    status, said = submit("--wait", **VALUES)
    assert status == 0, said
    assert len(tracked.search_model_versions(f"name='{MODEL}'")) == earlier + 1


def test_a_name_has_a_first_night_and_a_second_one_by_a_schedule(
    place: Place,
    url: str,
    submit: Callable[..., tuple[int, str]],
    with_exit_task: Path,
    told: list[Json],
    tracked: MlflowClient,
    tmp_path: Path,
) -> None:
    add_night(tmp_path / "logs", "2026-11-24", 300)
    status, said = submit("--pipeline=retraining", "--wait", settings=with_exit_task, **NIGHT)
    assert status == 0, said
    assert str(tracked.get_model_version_by_alias(NAME, "champion").version) == "1"
    k8s.wait_for(lambda: told)
    assert told[-1]["outcome"] == "finished" and told[-1]["registered"]["model"] == NAME
    assert told[-1]["registered"]["alias"] == "champion" and told[-1]["metrics"]["test_auc"] > 0.3

    client = Client(host=url)
    add_night(tmp_path / "logs", "2026-11-25", 340)
    state, name = scheduled(place, client, "second-night", NIGHT)
    assert state == "SUCCEEDED" and name.startswith(f"{SCHEDULE} ")
    versions = tracked.search_model_versions(f"name='{NAME}'")
    assert {held.tags["kfrec.data_version"] for held in versions} == {"2026-11-24", "2026-11-25"}
    # Nothing is new: the run ends well, and registers nothing.
    state, _ = scheduled(place, client, "third-night", NIGHT)
    assert state == "SUCCEEDED" and len(tracked.search_model_versions(f"name='{NAME}'")) == len(versions)


def test_a_step_that_fails_is_told_with_the_last_lines_of_its_log(
    submit: Callable[..., tuple[int, str]], with_exit_task: Path, told: list[Json]
) -> None:
    before = len(told)
    status, said = submit("--wait", settings=with_exit_task, **VALUES | {"source": f"s3://{BUCKET}/nothing-there"})
    assert status == 1, said
    k8s.wait_for(lambda: len(told) > before)
    assert (told[-1]["outcome"], told[-1]["step"]) == ("failed", "download")
    assert any("nothing-there" in line for line in told[-1]["log"])


def test_a_run_that_is_terminated_in_its_training_leaves_no_job(
    place: Place, url: str, submit: Callable[..., tuple[int, str]]
) -> None:
    def jobs() -> set[str]:
        return {body["metadata"]["name"] for body in k8s.listed(place.namespace, "mpijobs")}

    earlier, client = jobs(), Client(host=url)
    _, said = submit(**VALUES | {"epochs": 500})
    run = run_of(said)
    k8s.wait_for(lambda: jobs() - earlier)
    client.terminate_run(run)
    k8s.wait_for(lambda: not jobs() - earlier)
    state = client.wait_for_run_completion(run, timeout=600, sleep_duration=5).state
    assert state in ("CANCELED", "FAILED")
