"""The kfrec command with settings, schedules, servers, databases and folders that cannot be used."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.handler import answering
from tests.harm.place import TFRECORD, folders_of, run_here

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KFP_ENDPOINT", "KFP_TOKEN", "KF_PIPELINES_SA_TOKEN_PATH", "MLFLOW_TRACKING_URI", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


_NO_SETTINGS = {
    "not yaml": "every_step: [",
    "not text": "\xff\xfe",
    "a list": "- cpu: 1",
    "text": "cpu",
    "unknown section": "steps_: {}",
    "unknown step": "steps: {trian: {cpu: '2'}}",
    "unknown setting": "every_step: {cpus: '2'}",
    "steps a list": "steps: [train]",
    "a step a list": "steps: {train: [1]}",
    "a number for text": "every_step: {gpu_resource: 2}",
    "text for a number": "every_step: {retries: two}",
    "true for a number": "every_step: {retries: true}",
    "a list for a mapping": "every_step: {labels: [a]}",
    "a mapping for a list": "every_step: {tolerations: {key: a}}",
    "tolerations of text": "every_step: {tolerations: [gpu]}",
    "tolerations with strangers": "every_step: {tolerations: [{kee: a}]}",
    "cpu lots": "every_step: {cpu: lots}",
    "cpu empty": "every_step: {cpu: ''}",
    "memory lots": "every_step: {memory: lots}",
    "memory below 0": "every_step: {memory: '-4Gi'}",
    "memory in millis": "every_step: {memory: 500m}",
    "scratch lots": "steps: {train: {scratch: lots}}",
    "a timeout of 0": "every_step: {timeout: 0}",
    "retries below 0": "every_step: {retries: -1}",
    "a wait below 0": "every_step: {retry_wait: -1}",
    "gpus below 0": "every_step: {gpus: -1}",
    "an object": "!!python/object/apply:os.system [false]",
    "an anchor bomb": "a: &a [x]\nb: *a\nevery_step: *nothing",
}


# The commands read settings alike: one meets every case, the other a few.
@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        *(("compile --model=sim", wrong) for wrong in _NO_SETTINGS),
        *(("doctor --cluster", wrong) for wrong in ("not yaml", "unknown step", "cpu lots", "retries below 0")),
    ],
)
def test_settings_of_a_cluster(wrong: str, command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "settings.yaml").write_bytes(_NO_SETTINGS[wrong].encode("latin-1"))
    outcome = run_here(["kfrec", *command.split(), "--settings", "../settings.yaml"], capfd)
    assert not outcome.surprise("settings.yaml")


def test_compile_overwrites_no_file_of_others(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "work" / "sim-training.yaml").write_text("epochs: 3  # mine\n")
    assert not run_here(["kfrec", "compile", "--model=sim", "--output=."], capfd).surprise("sim-training.yaml")


@pytest.mark.parametrize("place", ["none.yaml", ".", "/proc/none", ""])
def test_settings_that_are_not_there(place: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert not run_here(
        ["kfrec", "compile", "--model=sim", f"--settings={place}", "--output=/proc/none"], capfd
    ).surprise()


_LOGIN = "<!doctype html><html><body><form action=/login><input name=user></form></body></html>"
_NO_KFP: dict[str, Callable[[], object]] = {
    "a login page": lambda: answering(200, _LOGIN, Content_Type="text/html"),
    "a redirect to one": lambda: answering(302, "", Location="http://127.0.0.1:9/dex/auth?client_id=x"),
    "a permanent redirect": lambda: answering(308, "", Location="https://127.0.0.1:9/"),
    "not allowed": lambda: answering(401, '{"error": "no token"}'),
    "forbidden": lambda: answering(403, "RBAC: access denied"),
    "another server": lambda: answering(404, "404 page not found"),
    "an upset server": lambda: answering(500, '{"error": "database"}'),
    "a proxy": lambda: answering(502, "<html>Bad gateway</html>"),
    "a busy server": lambda: answering(503, "upstream connect error"),
    "an empty page": lambda: answering(200, ""),
    "a list": lambda: answering(200, "[]"),
    "a number": lambda: answering(200, "7"),
}


@pytest.mark.parametrize("wrong", _NO_KFP)
def test_what_is_not_kfps_api(wrong: str, capfd: pytest.CaptureFixture[str]) -> None:
    with _NO_KFP[wrong]() as url:  # type: ignore[attr-defined]
        outcome = run_here(["kfrec", "submit", "--registry=r", f"--endpoint={url}"], capfd)
    assert not outcome.surprise(url.removeprefix("http://"))
    assert "uploaded" not in outcome.said


_NO_ENDPOINTS = ["", "http://127.0.0.1:9", "127.0.0.1", "ftp://here", "http://", "http://no such host", "http://[::1"]


@pytest.mark.parametrize("endpoint", _NO_ENDPOINTS)
def test_endpoints_that_are_none(endpoint: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert not run_here(["kfrec", "submit", "--registry=r", f"--endpoint={endpoint}"], capfd).surprise()


def _examined(words: list[str], capfd: pytest.CaptureFixture[str], subject: str) -> str:
    """The line about a subject of a kfrec doctor that finds something missing and leaves everything as it was."""
    outcome = run_here(["kfrec", "doctor", *words], capfd)
    assert outcome.status == 1 and not outcome.changed
    assert "Traceback" not in outcome.said and "this check failed" not in outcome.said, outcome.said
    (line,) = [line for line in outcome.said.splitlines() if line[9:].startswith(f"{subject} ")]
    assert line.startswith("missing ") and len(line) < 700
    return line


@pytest.mark.parametrize("wrong", ["a login page", "a redirect to one", "not allowed", "an upset server", "a list"])
def test_doctor_of_what_is_not_kfps_api(wrong: str, capfd: pytest.CaptureFixture[str]) -> None:
    with _NO_KFP[wrong]() as url:  # type: ignore[attr-defined]
        assert url in _examined(["--cluster", f"--endpoint={url}"], capfd, "pipelines")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "ftp://here", "http://[::1"])
def test_doctor_of_endpoints_that_are_none(endpoint: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert endpoint.rstrip("/") in _examined(["--cluster", f"--endpoint={endpoint}"], capfd, "pipelines")


@pytest.mark.parametrize(
    "root", ["here", "ftp://here", "s3://", "gs://", "minio://b/p?wrong=1", "s3://[::1", "s3://a b"]
)
def test_doctor_of_pipeline_roots_that_are_none(
    root: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    _examined(["--cluster", f"--pipeline-root={root}"], capfd, "object store")


_NO_KUBECONFIG = {
    "not yaml": "clusters: [",
    "not text": "\xff\xfe",
    "a list": "- a",
    "text": "clusters",
    "empty": "",
    "no contexts": "apiVersion: v1\nkind: Config\n",
    "an unknown context": "current-context: a\ncontexts: []\nclusters: []\nusers: []\n",
    "no cluster of that name": "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    "clusters: []\nusers: []\n",
    "a server that is none": "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    "clusters: [{name: c, cluster: {server: nonsense}}]\nusers: [{name: u, user: {}}]\n",
    "a certificate that is none": "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:9', certificate-authority-data: '!'}}]\n"
    "users: [{name: u, user: {}}]\n",
}


@pytest.mark.parametrize("wrong", _NO_KUBECONFIG)
def test_doctor_of_kubeconfigs(
    wrong: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubeconfig").write_bytes(_NO_KUBECONFIG[wrong].encode("latin-1"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    _examined(["--cluster", "--endpoint=http://127.0.0.1:9"], capfd, "kubernetes")


@pytest.mark.parametrize("folder", ["/proc/none", "/dev/null", "/dev/null/below", "x" * 300, "taken", "circle"])
def test_doctor_of_folders(folder: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "work" / "taken").write_text("a file")
    (tmp_path / "work" / "circle").symlink_to("circle")
    _examined([f"--workdir={folder}"], capfd, "disk")


@pytest.mark.parametrize("words", [["--workdir="], ["--clusster"], ["more"], ["--cluster", "--settings=none.yaml"]])
def test_doctor(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert not run_here(["kfrec", "doctor", *words], capfd).surprise()


@pytest.mark.parametrize(
    "words",
    [
        ["--port=0"], ["--port=-1"], ["--port=99999"], ["--port=http"], ["--port="], ["--workdir=none"],
        ["--workdir=/proc"], ["--tracking-uri=sqlite:////proc/none/mlflow.db"], ["--worrkdir=runs"], ["more"],
    ],
)  # fmt: skip
def test_ui(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert not run_here(["kfrec", "ui", *words], capfd).surprise()


@pytest.mark.parametrize(
    "words",
    [
        [], ["last"], [""], ["none@champion"], ["none/1", "--workdir=none"], ["a:b"], ["last", "--port=http"],
        ["last", "--workdir=/proc"], ["last", "--worrkdir=runs"],
    ],
)  # fmt: skip
def test_serve(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert not run_here(["kfrec", "serve", *words], capfd).surprise()


@pytest.mark.parametrize("words", [[], ["none.csv"], [""], ["."], ["/dev/null"], ["none.csv", "--dataset=criteo"]])
def test_init_schema(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert not run_here(["kfrec", "init-schema", *words], capfd).surprise()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", []), (b"\0" * 100, []), (b"\xff\xfe" * 50, []), (b"PK\x03\x04zip", []),
        (b"a,b\n1,2\n", ["--dataset=criteo"]),
        (b"a,b\n1,2\n", ["--label=c"]), (b"a,b\n0,2\n1,3\n", ["--output=/proc/none/s.yaml"]), (b'a,b\n"0,2\n' * 9, []),
    ],
)  # fmt: skip
def test_what_init_schema_cannot_read(
    content: bytes, words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work" / "t.csv").write_bytes(content)
    assert not run_here(["kfrec", "init-schema", "t.csv", *words], capfd).surprise()
    (tmp_path / "work" / "t.csv").unlink()


def test_ui_on_a_busy_port(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "work" / "runs").mkdir()
    (tmp_path / "work" / "runs" / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not run_here(["kfrec", "ui", f"--port={port}"], capfd).surprise(str(port))


@pytest.mark.parametrize(
    "words",
    [
        ["--workdir=/proc/none"], ["--workdir=/dev/null"], ["--workdir=/dev/null/below"], [f"--workdir={'x' * 300}"],
        ["--workdir=taken"], ["--workdir="], ["--workdir=circle"], ["--pipeline=trainnig"], ["--set"], ["--set=epochs"],
        ["--set==3"], ["--set=epoch=3"], ["--workers=0"], ["--workers=two"], ["--workers=3"], ["--source="], ["more"],
        ["--set=launcher=mpijob"], ["--set=launcher=mpijob", "--set=transport=gloo"], ["--set=launcher=gloo"],
        ["--set=long_seq_length=100"], ["--set=max_sequence_length=50"],
        ["--set=negative_sequence_length=3"], ["--set=negative_sequence_length=101"], ["--set=synthetic_items=3"],
        ["--tracking-uri=sqlite:////proc/none/mlflow.db"], ["--tracking-uri=postgresql://127.0.0.1:9/mlflow"],
        ["--tracking-uri=mysql://127.0.0.1:9/mlflow"], ["--tracking-uri=oracle://x"], ["--tracking-uri=nonsense://x"],
        ["--tracking-uri=sqlite:///taken/mlflow.db"], ["--tracking-uri=sqlite:///taken"],
        ["--pipeline=retraining"], ["--pipeline=retraining", "--set=data_prefix=none"],
        ["--pipeline=retraining", "--set=data_prefix=taken"], ["--pipeline=retraining", "--set=data_prefix=http://127.0.0.1:9"],
    ],
    ids=lambda words: " ".join(words)[:60],
)  # fmt: skip
def test_runs(words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "work" / "taken").write_text("a file")
    (tmp_path / "work" / "circle").symlink_to("circle")
    workdir = [] if any(word.startswith("--workdir") for word in words) else ["--workdir=../runs"]
    outcome = run_here(["kfrec", "run", *workdir, *words], capfd)
    assert not outcome.surprise()
    assert "preprocess" not in outcome.said.replace("preprocess_workers", ""), "was found out too late"


_RECORD = (
    '{"format": 1, "pipeline": {"kind": "training", "model": "din", "dataset": "", "task": ""}, "parameters": {}, '
    '"tracking_uri": "sqlite:////proc/none/mlflow.db", "started": 1.0, "run_id": "", "steps": {}, "purpose": "", '
    '"state": "failed", "message": "", "seconds": 1.0}'
)
_NO_RECORDS = {
    "empty": "",
    "not json": "{",
    "not text": "\xff\xfe",
    "a list": "[]",
    "a number": "7",
    "another format": _RECORD.replace('"format": 1', '"format": 9'),
    "no pipeline": _RECORD.replace('"pipeline"', '"pipelin"'),
    "a step without outputs": _RECORD.replace('"steps": {}', '"steps": {"download": {}}'),
    "a pipeline of text": _RECORD.replace('{"kind": "training", "model": "din", "dataset": "", "task": ""}', '"din"'),
    "an unknown kind": _RECORD.replace('"training"', '"trainnig"'),
    "an unknown model": _RECORD.replace('"din"', '"dinn"'),
    "parameters a list": _RECORD.replace('"parameters": {}', '"parameters": ["epochs"]'),
    "steps a list": _RECORD.replace('"steps": {}', '"steps": ["train"]'),
    "steps of text": _RECORD.replace('"steps": {}', '"steps": {"download": "done"}'),
    "a start of text": _RECORD.replace("1.0, ", '"now", ', 1),
    "unknown keys": _RECORD.replace('"message"', '"mesage"'),
}


# The commands read records alike: one meets every case, the others a few.
_READERS = (["run", "--resume=one"], ["compare", "one", "one"], ["sweep", "--data=one", "../sweep.yaml"])


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        *((["runs"], wrong) for wrong in _NO_RECORDS),
        *((words, wrong) for words in _READERS for wrong in ("not json", "another format", "steps a list")),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_records_of_runs(wrong: str, words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "run.json").write_bytes(_NO_RECORDS[wrong].encode("latin-1"))
    (tmp_path / "sweep.yaml").write_text("model: din\ntrials: 1\nsearch: {lr: {low: 0.001, high: 0.1}}\n")
    assert not run_here(["kfrec", *words, "--workdir=../runs"], capfd).surprise("run.json")


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--resume="], ["run", "--resume=none"], ["run", "--resume=last"], ["run", "--resume=../runs/mine"],
        ["run", "--resume=last", "--workdir=none"], ["run", "--resume=taken"], ["run", "--resume=/dev/null"],
        ["runs", "--workdir="], ["runs", "--workdir=none"], ["runs", "--workdir=taken"], ["runs", "more"],
        ["runs", "--jsn"],
        ["compare"], ["compare", "one"], ["compare", "", ""], ["compare", "last", "last"], ["compare", "none", "none"],
        ["compare", "../runs/mine", "last"], ["compare", "a", "b", "c"],
        ["reproduce"], ["reproduce", ""], ["reproduce", "none.json"], ["reproduce", "taken"], ["reproduce", "."],
        ["reproduce", "../empty.json"], ["reproduce", "../old.json"], ["reproduce", "../odd.json"],
        ["sweep"], ["sweep", ""], ["sweep", "none.yaml"], ["sweep", "."], ["sweep", "taken", "--data="],
        ["completion"], ["completion", "fish"],
    ],
    ids=lambda words: " ".join(words)[:60],
)  # fmt: skip
def test_runs_that_are_none(words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "work" / "taken").write_text("a file")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "old.json").write_text('{"parameters": {}, "metrics": {}}')
    (tmp_path / "odd.json").write_text(
        '{"parameters": {"epoch": 3}, "metrics": {}, "seed": 1, "digests": {}, "pipeline": {"model": "din"}}'
    )
    own = any(word.startswith("--workdir") for word in words) or words[0] == "completion"
    assert not run_here(["kfrec", *words, *([] if own else ["--workdir=../runs"])], capfd).surprise()


_NO_SWEEPS = {
    "empty": "",
    "not yaml": "search: [",
    "not text": "\xff\xfe",
    "a list": "- model: din",
    "no search": "model: din",
    "an unknown model": "model: dinn\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "an unknown field": "modle: din",
    "search a list": "search: [lr]",
    "a dimension of a number": "search: {lr: 3}",
    "an unknown dimension": "search: {lr: {lo: 1}}",
    "a dimension without high": "search: {lr: {low: 0.1}}",
    "low of text": "search: {lr: {low: small, high: 1}}",
    "low of true": "search: {lr: {low: true, high: 2}}",
    "low nan": "search: {lr: {low: .nan, high: 1.0}}",
    "low above high": "search: {lr: {low: 2, high: 1}}",
    "low and choices": "search: {lr: {low: 0.1, high: 1.0, choices: [0.1]}}",
    "choices a number": "search: {lr: {choices: 3}}",
    "choices of nothing": "search: {lr: {choices: []}}",
    "choices of lists": "search: {lr: {choices: [[1]]}}",
    "choices of nulls": "search: {lr: {choices: [null]}}",
    "a half for a whole number": "search: {epochs: {low: 1.5, high: 3}}",
    "log of text": "search: {lr: {low: 0.1, high: 1.0, log: very}}",
    "log from below 0": "search: {lr: {low: -1, high: 1, log: true}}",
    "out of range": "search: {epochs: {low: 0, high: 3}}",
    "of another step": "search: {synthetic_users: {low: 10, high: 30}}",
    "an unknown parameter": "search: {learn: {low: 1, high: 3}}",
    "fixed as well": "parameters: {lr: 0.1}\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "parameters a list": "parameters: [lr]\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "parameters out of range": "parameters: {epochs: 0}\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "no trials": "trials: 0\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "trials of text": "trials: many\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "parallel below 0": "parallel: -1\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "a seed below 0": "seed: -1\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "katib a list": "katib: [data]\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "unknown of katib": "katib: {dat: x}\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "gpus of katib below 0": "katib: {gpus: -1}\nsearch: {lr: {low: 0.1, high: 1.0}}",
    "an object": "!!python/object/apply:os.system [false]",
}


@pytest.mark.parametrize("wrong", _NO_SWEEPS)
def test_sweeps(wrong: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sweep.yaml").write_bytes(_NO_SWEEPS[wrong].encode("latin-1"))
    for words in ([], ["--katib"]):
        outcome = run_here(["kfrec", "sweep", "../sweep.yaml", "--workdir=../runs", *words], capfd)
        assert not outcome.surprise("sweep.yaml")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("wrong", ["", "data: ''", "data: here", "data: 'gs://b/t', name: A", "data: /d, name: ''"])
def test_sweeps_of_katib(wrong: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sweep.yaml").write_text(f"katib: {{{wrong}}}\nsearch: {{lr: {{low: 0.1, high: 1.0}}}}")
    assert not run_here(["kfrec", "sweep", "../sweep.yaml", "--katib"], capfd).surprise("sweep.yaml", "katib")


@pytest.mark.parametrize("status", [500, 503, 401, 403, 404])
def test_tracking_servers_that_refuse(
    status: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    with answering(status, "the database is on fire") as url:
        outcome = run_here(["kfrec", "run", "--workdir=../runs", f"--tracking-uri={url}"], capfd)
    assert not outcome.surprise(url, str(status))


_NO_JOB_SETTINGS = {
    "not yaml": "image: [",
    "a list": "- image",
    "unknown": "imgae: x",
    "a number": "image: 7",
    "a list for a mapping": "labels: [a]",
    "true for a number": "ttl_seconds_after_finished: true",
    "launcher_cpu lots": "launcher_cpu: lots",
    "launcher_memory lots": "launcher_memory: lots",
    "stage_size lots": "stage_size: lots",
}


@pytest.mark.parametrize("wrong", _NO_JOB_SETTINGS)
def test_settings_of_jobs(wrong: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "job.yaml").write_text(_NO_JOB_SETTINGS[wrong])
    places = ["--tfrecord_uri=gs://bucket/tfrecord", "--model_uri=gs://bucket/model"]
    words = ["train", *folders_of("train", tfrecord=TFRECORD), "--launcher=mpijob", *places, "--job_settings=job.yaml"]
    assert not run_here(words, capfd).surprise("job.yaml")
