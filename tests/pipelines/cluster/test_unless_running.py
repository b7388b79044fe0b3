"""``kfrec submit --unless-running``: no second run of a schedule while the first trains."""

from __future__ import annotations

import re
from typing import Any

import pytest

from components.errors import KfrecError
from pipelines.cli import main
from pipelines.cluster.connection import connect
from pipelines.cluster.submit import Submission, fitted, submit, unfinished
from pipelines.defaults import RETRAINING, Pipeline
from tests.fakes.kfp_api import KfpApi

IR = "pipelineInfo:\n  name: kfrec-training\n"


def start(url: str, schedule: str = "", ir: str = IR, **more: Any) -> str:
    return submit(connect(url), url, Submission(ir, Pipeline(), {}, schedule=schedule, **more), lambda line: None)


def asked(url: str, schedule: str = "", ir: str = IR, namespace: str = "") -> str | None:
    return unfinished(connect(url, namespace), url, ir, schedule)


def test_the_command_starts_one_run_at_a_time(api: KfpApi, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["submit", "--endpoint", url, "--schedule", "nightly", "--unless-running"]
    assert main(words) == 0
    (run,) = api.runs.values()
    assert re.fullmatch(r"nightly \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", run["display_name"])
    capsys.readouterr()
    assert main(words) == 0 and len(api.runs) == 1
    told = capsys.readouterr().out
    assert told == f"not started: run {run['display_name']!r} is pending: {url}/#/runs/details/{run['run_id']}\n"
    for run in api.runs.values():
        run["state"] = "FAILED"
    assert main(words) == 0 and len(api.runs) == 2


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "CANCELING", "PAUSED", "RUNTIME_STATE_UNSPECIFIED", None])
def test_a_run_that_has_not_ended_counts_whatever_its_state(api: KfpApi, url: str, state: str | None) -> None:
    run = api.runs[start(url, "nightly")]
    run["state"] = state
    if state is None:
        del run["state"]
    assert asked(url, "nightly") is not None


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"])
def test_a_run_that_has_ended_does_not_count(api: KfpApi, url: str, state: str) -> None:
    api.runs[start(url, "nightly")]["state"] = state
    assert asked(url, "nightly") is None


def test_a_run_is_found_on_any_page(api: KfpApi, url: str) -> None:
    oldest = start(url, "nightly")
    for _ in range(4):
        api.runs[start(url, "nightly")]["state"] = "SUCCEEDED"
    api.page_limit = 2
    assert oldest in str(asked(url, "nightly"))


def test_other_schedules_and_other_pipelines_do_not_count(api: KfpApi, url: str) -> None:
    start(url, "nightly-books")
    start(url, "nightly", name="nightly by hand")
    start(url, "nightly", IR.replace("training", "retraining"))
    assert asked(url, "nightly") is None
    assert asked(url) is not None, "without a schedule every run of the pipeline counts"


def test_another_version_of_the_pipeline_counts(url: str) -> None:
    start(url, "nightly")
    assert asked(url, "nightly", IR + "# newer\n") is not None


def test_fields_that_kfp_leaves_out_do_not_end_the_search(api: KfpApi, url: str) -> None:
    kept, *bare = (start(url, "nightly") for _ in range(3))
    del api.runs[bare[0]]["pipeline_version_reference"]
    del api.runs[bare[1]]["display_name"]
    assert kept in str(asked(url, "nightly"))


def test_the_runs_of_another_user_do_not_count(api: KfpApi, url: str) -> None:
    api.multi_user = True
    submit(connect(url, "ann"), url, Submission(IR, Pipeline(), {}, schedule="nightly"), lambda line: None)
    assert asked(url, "nightly", namespace="ann") is not None
    assert asked(url, "nightly", namespace="bob") is None


def test_a_second_try_after_a_lost_answer_starts_no_second_run(api: KfpApi, url: str) -> None:
    """As the Job of a CronJob does it, whose first pod failed."""
    words = ["submit", "--endpoint", url, "--schedule", "nightly", "--unless-running"]
    api.lose_answer_of = ("POST", "/runs")
    assert main(words) == 2
    assert main(words) == 0
    assert len(api.runs) == 1


@pytest.mark.parametrize("path", ["pipelines", "runs"])
def test_a_kfp_that_fails_while_it_is_asked_is_no_permission_to_start(api: KfpApi, url: str, path: str) -> None:
    start(url)
    client = connect(url)
    api.before_call = lambda method, asked: setattr(api, "answers", [503] * asked.endswith(path))
    with pytest.raises(KfrecError, match="answered 503"):
        unfinished(client, url, IR)


@pytest.mark.parametrize("made", ["pipelines", "upload_version", "experiments"])
def test_two_schedules_at_once_share_pipeline_version_and_experiment(api: KfpApi, url: str, made: str) -> None:
    """The other has made it after this one asked and found nothing."""

    def other(method: str, path: str) -> None:
        if method == "POST" and path.endswith(made):
            api.before_call = lambda method, path: None
            start(url, "b")

    api.before_call = other
    start(url, "a")
    assert (len(api.pipelines), len(api.versions), len(api.experiments)) == (1, 1, 1)
    assert sorted(run["display_name"].split()[0] for run in api.runs.values()) == ["a", "b"]
    assert 409 in {status for _, _, status, _ in api.answered}


def test_what_is_written_fits_the_columns_of_kfp(api: KfpApi, url: str) -> None:
    mile = "n" * 300
    ir = f"pipelineInfo:\n  name: {mile}\n  description: {mile}\n"
    for more in ({"name": mile}, {}):
        start(url, mile, ir, experiment=mile, **more)
    assert len(api.pipelines) == len(api.versions) == len(api.experiments) == 1
    assert asked(url, mile, ir) is not None and asked(url, mile + "n", ir) is None


def test_texts_that_are_cut_at_the_same_place_stay_different() -> None:
    assert fitted("n" * 191) == "n" * 191
    cut = {fitted("n" * 191 + end) for end in ("a", "b")}
    assert len(cut) == 2 and {len(text) for text in cut} == {191}


def test_a_run_has_one_name(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["submit", "--endpoint", url, "--schedule=nightly", "--run-name=mine"])
    assert "not allowed with argument" in capsys.readouterr().err


@pytest.mark.slow
def test_a_retraining_can_be_scheduled(api: KfpApi, url: str) -> None:
    words = ["--pipeline", RETRAINING, "--set", "data_prefix=gs://b/logs", "--schedule", "nightly"]
    assert main(["submit", "--endpoint", url, *words]) == 0
    (run,) = api.runs.values()
    assert run["runtime_config"]["parameters"]["data_prefix"] == "gs://b/logs"
