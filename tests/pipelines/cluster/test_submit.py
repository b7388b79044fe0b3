"""Runs through the official client, against a server that speaks KFP's protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from kfp import Client

from components.errors import KfrecError
from components.images import VERSION
from pipelines.cli import main
from pipelines.cluster import progress
from pipelines.cluster.connection import connect
from pipelines.cluster.progress import LAST_LINES, follow, steps_of
from pipelines.cluster.submit import Submission, ensure_version, find_version, submit
from pipelines.compilation import kubernetes_manifests, version_name
from pipelines.defaults import PIPELINES, REFIT, Pipeline
from tests.fakes.kfp_api import KfpApi
from tests.waiting import LONGEST


@pytest.fixture
def client(url: str) -> Client:
    return connect(url)


@pytest.fixture
def run_id(client: Client, url: str, ir: str) -> str:
    """A run of the training pipeline."""
    return submit(client, url, Submission(ir, Pipeline(), {}), lambda line: None)


def test_a_run_is_made_from_a_version_that_holds_the_compiled_pipeline(
    api: KfpApi, url: str, client: Client, ir: str
) -> None:
    told: list[str] = []
    run_id = submit(
        client,
        url,
        Submission(ir, Pipeline(), {"epochs": 1, "source": "gs://b/d"}, pipeline_root="gs://b/r"),
        told.append,
    )
    (version,) = api.versions.values()
    assert version["display_name"] == version_name(ir)
    assert version["pipeline_spec"]["pipeline_spec"] == next(yaml.load_all(ir, yaml.CSafeLoader))
    run = api.runs[run_id]
    assert run["runtime_config"] == {"parameters": {"epochs": 1, "source": "gs://b/d"}, "pipeline_root": "gs://b/r"}
    assert run["pipeline_version_reference"]["pipeline_version_id"] == version["pipeline_version_id"]
    assert told == [
        f"pipeline kfrec-sim-training, version {version_name(ir)} (uploaded)",
        f"{url}/#/runs/details/{run_id}",
    ]


def test_what_is_known_is_not_uploaded_again(api: KfpApi, url: str, client: Client, ir: str) -> None:
    for _ in range(2):
        submit(client, url, Submission(ir, Pipeline(), {}), lambda line: None)
    assert (len(api.pipelines), len(api.versions), len(api.runs), len(api.experiments)) == (1, 1, 2, 1)


def test_a_version_is_found_on_any_page(api: KfpApi, client: Client, ir: str) -> None:
    first = ensure_version(client, ir)
    for number in range(7):
        ensure_version(client, ir + f"\n# {number}\n")
    api.page_limit = 2
    assert ensure_version(client, ir).version_id == first.version_id
    assert len(api.versions) == 8


def test_an_upload_whose_answer_got_lost_is_found_the_next_time(api: KfpApi, client: Client, ir: str) -> None:
    api.lose_answer_of = ("POST", "upload_version")
    try:
        ensure_version(client, ir)
    except Exception:
        ensure_version(client, ir)
    assert len(api.versions) == 1


STEPS = ["download", "train"]


def test_a_run_is_followed_to_its_end_by_the_steps_of_its_pipeline(
    api: KfpApi, url: str, client: Client, run_id: str
) -> None:
    """KFP lists drivers, attempts and executors too, and nodes without a name."""
    told: list[str] = []
    assert follow(client, url, run_id, STEPS, timeout=LONGEST, pause=0.01, echo=told.append) == 0
    assert told == ["download: pending", "train: pending", "download: succeeded in 1 min 15 s", "train: running",
                    "train: succeeded in 1 min 15 s", "run succeeded"]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "line"),
    [("", "train failed"), ("OOMKilled\n(exit code 137)", "train failed: OOMKilled (exit code 137)")],
)
def test_a_run_that_fails_names_the_step_and_what_its_pod_said(
    api: KfpApi, url: str, client: Client, run_id: str, message: str, line: str
) -> None:
    api.states, api.task_message = ["RUNNING", "FAILED"], message
    told: list[str] = []
    assert follow(client, url, run_id, STEPS, timeout=LONGEST, pause=0.01, echo=told.append) == 1
    assert told[-3:] == ["train: failed in 1 min 15 s", line, "run failed in train: a step failed"]


@pytest.mark.parametrize("template", ["", "retry-system-container-impl-"])
def test_the_end_of_a_failed_steps_log_is_shown(
    api: KfpApi, url: str, client: Client, run_id: str, template: str
) -> None:
    api.template = template
    api.states, api.log = ["FAILED"], "".join(f"line {n}\n" for n in range(3000)) + "error: no data\n"
    told: list[str] = []
    assert follow(client, url, run_id, STEPS, timeout=LONGEST, pause=0.01, echo=told.append) == 1
    at = told.index("train failed")
    assert told[at + 1 : -1] == [f"  line {n}" for n in range(3001 - LAST_LINES, 3000)] + ["  error: no data"]


def test_the_state_of_the_mpijob_is_shown_once(
    api: KfpApi, url: str, client: Client, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_BETWEEN_LOOKS", 0.0)
    api.states = ["RUNNING", "RUNNING", "SUCCEEDED"]
    first = "created MPIJob kfrec-train-1 in namespace kubeflow\nkfrec-train-1-worker-0 has no node: 0/3 nodes"
    api.log = f"{first}\nepoch 1: loss 0.6\n"
    told: list[str] = []
    assert follow(client, url, run_id, STEPS, timeout=LONGEST, pause=0.01, echo=told.append) == 0
    assert [line for line in told if "MPIJob" in line or "worker" in line] == [
        f"train: {line}" for line in first.splitlines()
    ]
    assert not any("epoch 1" in line for line in told)


_REFUSED = 'pods "kfrec-x-1" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'


def test_what_keeps_a_step_from_starting_is_shown_once(
    api: KfpApi, url: str, client: Client, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KFP itself says "running" of a step as long as Argo waits to try it again."""
    monkeypatch.setattr(progress, "_BETWEEN_LOOKS", 0.0)
    api.states = ["RUNNING", "RUNNING", "RUNNING", "SUCCEEDED"]
    api.argo = {
        "root.download-driver": ("Succeeded", "quota was short for a while"),
        "root.download": ("Running", "Backoff for 1 minutes 0 seconds"),
        "root.download(0)": ("Error", _REFUSED),
        "root.train.executor(1)": ("Pending", "Unschedulable: 0/3 nodes are available:\n3 Insufficient memory."),
        "root.train.executor(0)": ("Pending", "PodInitializing"),
        "root.other": ("Pending", "no step of this pipeline"),
    }
    told: list[str] = []
    assert follow(client, url, run_id, STEPS, timeout=LONGEST, pause=0.01, echo=told.append) == 0
    states = ("running", "pending", "succeeded in 1 min 15 s")
    assert [line for line in told if not line.endswith(states)] == [
        "download: Backoff for 1 minutes 0 seconds",
        f"download: {_REFUSED}",
        "train: Unschedulable: 0/3 nodes are available: 3 Insufficient memory.",
        "run succeeded",
    ]


@pytest.mark.parametrize("kind", PIPELINES)
def test_the_steps_of_a_pipeline_are_those_that_run_in_pods(kind: str, compiled_ir: Callable[[Pipeline], str]) -> None:
    steps = steps_of(compiled_ir(Pipeline(kind)))
    refit = REFIT if "register" in steps else ()
    assert sorted(steps) == sorted((*PIPELINES[kind], *(f"{name}-2" for name in refit)))


def test_a_run_that_takes_too_long_is_left_running(api: KfpApi, url: str, client: Client, run_id: str) -> None:
    api.states = ["RUNNING"]
    with pytest.raises(KfrecError, match="has not ended after 0 s; it continues at"):
        follow(client, url, run_id, STEPS, timeout=0, pause=0.01, echo=lambda line: None)


@pytest.mark.slow
def test_the_command_submits_and_waits(api: KfpApi, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["submit", "--endpoint", url, "--set", "epochs=2", "--run-name", "nightly", "--wait", "--pause", "0.01"]
    assert main(arguments) == 0
    (run,) = api.runs.values()
    assert run["display_name"] == "nightly" and run["runtime_config"]["parameters"] == {"epochs": 2}
    assert capsys.readouterr().out.splitlines()[-1] == "run succeeded"


@pytest.mark.slow
def test_the_command_submits_small_data(api: KfpApi, url: str) -> None:
    command = ["submit", "--endpoint", url, "--registry", "r", "--size", "small", "--set", "epochs=2"]
    assert main([*command, "--model", "sasrec", "--dataset", "events"]) == 0
    (run,) = api.runs.values()
    (version,) = api.versions.values()
    assert run["runtime_config"]["parameters"] == {"epochs": 2}
    fields = version["pipeline_spec"]["pipeline_spec"]["root"]["inputDefinitions"]["parameters"]
    assert (fields["gpus_per_worker"]["defaultValue"], fields["global_batch_size"]["defaultValue"]) == (0, 256)


def test_images_without_a_registry_are_refused_unless_the_settings_name_them(
    api: KfpApi, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KFREC_REGISTRY", "")
    words = ["submit", "--endpoint", url, "--pipeline", "prediction", "--set", "rows=gs://b/d"]
    words += ["--set", "model_version=m/1"]
    assert main(words) == 2 and not api.answered
    assert "the images of predict have no registry; set KFREC_REGISTRY, give --reg" in capsys.readouterr().err
    (tmp_path / "own.yaml").write_text("steps: {predict: {image: registry.own.org/predict:1}}")
    assert main([*words, "--settings", str(tmp_path / "own.yaml")]) == 0
    assert main([*words, "--registry", "registry.team.org"]) == 0
    executors = [v["pipeline_spec"]["pipeline_spec"]["deploymentSpec"]["executors"] for v in api.versions.values()]
    images = [each["exec-predict"]["container"]["image"] for each in executors]
    assert images == ["registry.own.org/predict:1", f"registry.team.org/kfrec-cpu:{VERSION}"]


@pytest.mark.slow
def test_a_run_without_the_cache_is_another_version(api: KfpApi, url: str) -> None:
    for more in ([], ["--no-cache"]):
        assert main(["submit", "--endpoint", url, *more]) == 0
    specs = [version["pipeline_spec"]["pipeline_spec"] for version in api.versions.values()]
    graphs = [[spec["root"], *(part for part in spec["components"].values() if "dag" in part)] for spec in specs]
    cached = [
        any(
            task.get("cachingOptions", {}).get("enableCache")
            for graph in each
            for task in graph["dag"]["tasks"].values()
        )
        for each in graphs
    ]
    assert cached == [True, False]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "epoch=1"], "unknown parameter epoch: did you mean epochs?"),
        (["--set", "epochs=many"], "parameter epochs='many' is not a whole number"),
        (["--endpoint", "http://127.0.0.1:1"], "does not answer"),
        (["--wait", "--pause", "-1"], "--pause -1 is not a number of seconds above 0; correct it"),
        (["--wait", "--timeout", "nan"], "--timeout nan is not a number of seconds above 0"),
        (["--wait", "--pause", "inf"], "--pause inf is not a number of seconds above 0"),
        (["--pipeline-root", "bucket/root"], "--pipeline-root bucket/root: cannot hold artifacts; give gs://, s3://"),
        (["--pipeline-root", "s3://me:key@b/r"], "--pipeline-root s3://me:***@b/r: KFP keeps it and shows it"),
        (["--endpoint", ""], "no address of KFP's API; give --endpoint URL or set KFP_ENDPOINT"),
    ],
)
def test_a_mistake_is_one_line(
    api: KfpApi,
    url: str,
    arguments: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KFP_ENDPOINT", raising=False)
    assert main(["submit", "--endpoint", url, *arguments]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert told in line and not api.runs


def test_a_token_opens_the_door(
    api: KfpApi, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api.token = "secret"
    assert main(["submit", "--endpoint", url]) == 2
    assert "refused (401); set KFP_TOKEN" in capsys.readouterr().err
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "token"))
    assert main(["submit", "--endpoint", url]) == 0


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_enter_is_told_what_to_set(
    api: KfpApi, url: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    api.answers = [status]
    assert main(["submit", "--endpoint", url]) == 2
    assert f"refused ({status}); set KFP_TOKEN, and in a multi-user KFP give --namespace" in capsys.readouterr().err


def test_an_account_that_kfp_does_not_allow_is_named(api: KfpApi, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """KFP 2.18 refuses every other account than its default one that is not in its list."""
    api.allowed_accounts = {"kfrec-pipeline"}
    assert main(["submit", "--endpoint", url, "--service-account", "ann"]) == 2
    assert "refused (403)" in (said := capsys.readouterr().err) and "service account ann is not in the" in said
    assert main(["submit", "--endpoint", url, "--service-account", "kfrec-pipeline"]) == 0


def test_a_token_that_was_renewed_is_read_again(
    api: KfpApi, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(path))
    api.token = "first"
    path.write_text("first\n")
    client = connect(url)
    api.token = "second"
    path.write_text("second\n")
    assert client.list_experiments().total_size == 0


def test_runs_are_made_in_the_users_namespace(api: KfpApi, url: str) -> None:
    api.multi_user = True
    assert main(["submit", "--endpoint", url, "--namespace", "ann"]) == 0
    (experiment,) = api.experiments.values()
    (run,) = api.runs.values()
    assert experiment["namespace"] == "ann" and run["experiment_id"] == experiment["experiment_id"]


def test_a_server_that_fails_for_a_while_does_not_end_the_waiting(
    api: KfpApi, url: str, client: Client, run_id: str
) -> None:
    told: list[str] = []
    api.answers = [503, 429, 500]
    api.lose_answer_of = ("GET", run_id)
    assert follow(client, url, run_id, STEPS, timeout=LONGEST, pause=0.01, echo=told.append) == 0
    assert told[-1] == "run succeeded"


def test_a_server_that_fails_for_long_ends_the_waiting(api: KfpApi, url: str, client: Client, run_id: str) -> None:
    api.answers = [503] * 100
    with pytest.raises(KfrecError, match="answered 503"):
        follow(client, url, run_id, STEPS, timeout=LONGEST, pause=0.01, patience=0.05, echo=lambda line: None)


def test_a_wait_that_fails_does_not_look_like_a_run_that_failed(
    api: KfpApi, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer that no code foresaw, such as a null."""
    monkeypatch.setattr(progress, "_by_step", lambda nodes, steps: {"train": None})
    assert main(["submit", "--endpoint", url, "--wait", "--pause", "0.01"]) == 2
    (run_id,) = api.runs
    said = capsys.readouterr().err
    assert f"cannot follow the run, which continues at {url}/#/runs/details/{run_id}: AttributeError" in said
    assert "Traceback" not in said


def test_a_token_that_expires_ends_the_waiting_and_not_the_run(
    api: KfpApi, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def expire(method: str, path: str) -> None:
        if method == "GET" and "/runs/" in path:
            api.token = "renewed"

    api.before_call, api.token = expire, "first"
    monkeypatch.setenv("KFP_TOKEN", "first")
    assert main(["submit", "--endpoint", url, "--wait", "--pause", "0.01"]) == 2
    (run_id,) = api.runs
    said = capsys.readouterr().err
    assert "refused (401)" in said and f"this ends the waiting, not the run: {url}/#/runs/details/{run_id}" in said


def test_a_run_that_is_gone_ends_the_waiting_at_once(api: KfpApi, url: str) -> None:
    with pytest.raises(KfrecError, match="answered 404"):
        follow(connect(url), url, "no-such-run", STEPS, timeout=LONGEST, echo=lambda line: None)


def test_a_run_whose_start_was_not_confirmed_is_not_started_again_unseen(api: KfpApi, url: str, ir: str) -> None:
    api.lose_answer_of = ("POST", "/runs")
    with pytest.raises(KfrecError, match="no answer; the run may have started"):
        submit(connect(url), url, Submission(ir, Pipeline(), {}), lambda line: None)
    assert len(api.runs) == 1


def test_in_a_kfp_of_several_users_the_pipeline_is_the_users_own(api: KfpApi, url: str, ir: str) -> None:
    shared = ensure_version(connect(url), ir)
    own = ensure_version(connect(url, "team"), ir)
    assert own.pipeline_id != shared.pipeline_id
    assert [pipeline["namespace"] for pipeline in api.pipelines.values()] == ["", "team"]
    found = find_version(connect(url, "team"), ir)
    assert found is not None and (found.pipeline_id, found.version_id) == (own.pipeline_id, own.version_id)


def test_what_kubectl_applied_is_found_and_not_uploaded_again(api: KfpApi, url: str, ir: str) -> None:
    api.pipeline_store = "kubernetes"
    api.kubectl_apply(kubernetes_manifests(ir))
    version = ensure_version(connect(url), ir)
    assert not version.is_new and list(api.versions) == [version.version_id]
