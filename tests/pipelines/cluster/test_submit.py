"""Runs through the official client, against a server that speaks KFP's protocol."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest
import yaml

from components.errors import KfrecError
from pipelines.cli import main
from pipelines.cluster.connection import connect
from pipelines.cluster.submit import Submission, follow, submit
from pipelines.cluster.versions import ensure_version
from pipelines.compilation import version_name
from tests.fakes.kfp_api import KfpApi


def test_a_run_is_made_from_a_version_that_holds_the_compiled_pipeline(api: KfpApi, url: str, ir: str) -> None:
    told: list[str] = []
    client = connect(url)
    run_id = submit(
        client,
        url,
        Submission(ir, "training", {"epochs": "1", "source": "gs://b/d"}, pipeline_root="gs://b/r"),
        told.append,
    )
    (version,) = api.versions.values()
    assert version["display_name"] == version_name(ir)
    assert version["pipeline_spec"]["pipeline_spec"] == next(yaml.safe_load_all(ir))
    run = api.runs[run_id]
    assert run["runtime_config"] == {"parameters": {"epochs": 1, "source": "gs://b/d"}, "pipeline_root": "gs://b/r"}
    assert run["pipeline_version_reference"]["pipeline_version_id"] == version["pipeline_version_id"]
    assert told == [f"pipeline kfrec-training, version {version_name(ir)} (uploaded)", f"{url}/#/runs/details/{run_id}"]


def test_what_is_known_is_not_uploaded_again(api: KfpApi, url: str, ir: str) -> None:
    client = connect(url)
    for _ in range(2):
        submit(client, url, Submission(ir, "training", {}), lambda line: None)
    assert (len(api.pipelines), len(api.versions), len(api.runs), len(api.experiments)) == (1, 1, 2, 1)


def test_a_version_is_found_on_any_page(api: KfpApi, url: str, ir: str) -> None:
    client = connect(url)
    first = ensure_version(client, ir)
    for number in range(7):
        ensure_version(client, ir + f"\n# {number}\n")
    api.page_limit = 2
    assert ensure_version(client, ir).version_id == first.version_id
    assert len(api.versions) == 8


def test_an_upload_whose_answer_got_lost_is_found_the_next_time(api: KfpApi, url: str, ir: str) -> None:
    api.lose_answer_of = ("POST", "upload_version")
    client = connect(url)
    try:
        ensure_version(client, ir)
    except Exception:
        ensure_version(client, ir)
    assert len(api.versions) == 1


def test_a_run_is_followed_to_its_end(api: KfpApi, url: str, ir: str) -> None:
    client, told = connect(url), list[str]()
    run_id = submit(client, url, Submission(ir, "training", {}), lambda line: None)
    assert follow(client, url, run_id, timeout=10, pause=0.01, tell=told.append) == 0
    assert told == ["download: pending", "train: pending", "download: succeeded", "train: running", "train: succeeded",
                    "run succeeded"]  # fmt: skip


def test_a_run_that_fails_names_the_step(api: KfpApi, url: str, ir: str) -> None:
    api.states = ["RUNNING", "FAILED"]
    client, told = connect(url), list[str]()
    run_id = submit(client, url, Submission(ir, "training", {}), lambda line: None)
    assert follow(client, url, run_id, timeout=10, pause=0.01, tell=told.append) == 1
    assert told[-1] == "run failed in train: a step failed"


def test_a_run_that_takes_too_long_is_left_running(api: KfpApi, url: str, ir: str) -> None:
    api.states = ["RUNNING"]
    client = connect(url)
    run_id = submit(client, url, Submission(ir, "training", {}), lambda line: None)
    with pytest.raises(KfrecError, match="has not ended after 0 s; it goes on at"):
        follow(client, url, run_id, timeout=0, pause=0.01, tell=lambda line: None)


def test_the_command_submits_and_waits(api: KfpApi, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["submit", "--endpoint", url, "--set", "epochs=2", "--run-name", "nightly", "--wait", "--pause", "0.01"]
    assert main(arguments) == 0
    (run,) = api.runs.values()
    assert run["display_name"] == "nightly" and run["runtime_config"]["parameters"] == {"epochs": 2}
    assert capsys.readouterr().out.splitlines()[-1] == "run succeeded"


def test_a_run_without_the_cache_is_another_version(api: KfpApi, url: str) -> None:
    for more in ([], ["--no-cache"]):
        assert main(["submit", "--endpoint", url, *more]) == 0
    specs = [version["pipeline_spec"]["pipeline_spec"] for version in api.versions.values()]
    cached = [
        any(t["cachingOptions"].get("enableCache") for t in spec["root"]["dag"]["tasks"].values()) for spec in specs
    ]
    assert cached == [True, False]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "epoch=1"], "unknown parameter epoch: did you mean epochs?"),
        (["--set", "epochs=many"], "parameter epochs='many' is not a whole number"),
        (["--endpoint", "http://127.0.0.1:1"], "does not answer"),
        (["--endpoint", ""], "no KFP API to talk to; give --endpoint URL or set KFP_ENDPOINT"),
    ],
)
def test_a_mistake_is_one_line(
    url: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KFP_ENDPOINT", raising=False)
    assert main(["submit", "--endpoint", url, *arguments]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert told in line


def test_a_token_opens_the_door(
    api: KfpApi, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api.token = "secret"
    assert main(["submit", "--endpoint", url]) == 2
    assert "refused (401); set KFP_TOKEN" in capsys.readouterr().err
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "token"))
    assert main(["submit", "--endpoint", url]) == 0


def test_the_stand_in_answers_as_the_api_is_described(api: KfpApi, url: str, ir: str) -> None:
    if "KFREC_SCHEMAS" not in os.environ:
        pytest.skip("KFREC_SCHEMAS does not name the folder with KFP's API description")
    swagger = json.loads((Path(os.environ["KFREC_SCHEMAS"]) / "kfp_api_single_file.swagger.json").read_text())
    client = connect(url)
    run_id = submit(client, url, Submission(ir, "training", {"epochs": 1}), lambda line: None)
    shown = {
        "v2beta1Run": api.get_run(run_id, {}, None),
        "v2beta1PipelineVersion": next(iter(api.versions.values())),
        "v2beta1Pipeline": next(iter(api.pipelines.values())),
        "v2beta1Experiment": next(iter(api.experiments.values())),
    }
    for name, body in shown.items():
        schema = {**swagger["definitions"][name], "definitions": swagger["definitions"], "additionalProperties": False}
        jsonschema.validate(body, schema)
