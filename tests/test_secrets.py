"""Passwords in addresses and keys in the environment stay out of all that is written."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest
from kfp.local import subprocess_task_handler

from components.errors import KfrecError
from components.secrets import without_password
from components.steps.command import command
from pipelines.cli import main
from pipelines.defaults import Pipeline
from pipelines.runs.lifecycle import run_folder
from pipelines.runs.record import RunRecord, read_record
from pipelines.summary import summarise
from tests.fakes.file_server import FileServer
from tests.pipelines.in_process import _run_step, steps_in_process

CANARY = "canary7f3a"
# Every credential that kfrec or a library of it reads from the environment.
CREDENTIALS = [
    "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "KFP_TOKEN", "KFP_COOKIES",
]  # fmt: skip
_REVIEWS = [
    f'{{"reviewerID": "U{user}", "asin": "B{(user + item) % 9}", "unixReviewTime": {item}, "overall": 5.0}}'
    for user in range(30)
    for item in range(9)
]


@pytest.fixture
def canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CREDENTIALS:
        monkeypatch.setenv(name, CANARY)


def holds_canary(folder: Path) -> list[str]:
    """The files below a folder that hold the canary, in their names or contents."""
    return [
        str(path)
        for path in folder.rglob("*")
        if CANARY in str(path.relative_to(folder)) or (path.is_file() and CANARY.encode() in path.read_bytes())
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("https://me:s:e@cret@host/data?x=1", "https://me:***@host/data?x=1"),
        ("https://host/a?X-Amz-Signature=abc&part=2", "https://host/a?X-Amz-Signature=***&part=2"),
        ("https://host/a?sp=r&sig=ab%2Fc", "https://host/a?sp=r&sig=***"),
        ("s3://bucket/a?region=eu&endpoint=host:9000", "s3://bucket/a?region=eu&endpoint=host:9000"),
        ("https://me:wJalr/XUtn/FEMI@host/data", "https://me:***@host/data"),
        ("s3://AKIA:se/cret@bucket/a?region=eu", "s3://AKIA:***@bucket/a?region=eu"),
        ("https://ghp_abc@host/data", "https://***@host/data"),
        ("https://host/a?key=abc&n=2&pass=d&auth=e", "https://host/a?key=***&n=2&pass=***&auth=***"),
        ("https://host:80/a@b and https://host/c@d", "https://host:80/a@b and https://host/c@d"),
        ("'https://me:secret@host/a': x@y", "'https://me:***@host/a': x@y"),
        ("a: b@c", "a: b@c"),
    ],
)
def test_what_is_shown_of_an_address(text: str, shown: str) -> None:
    assert without_password(text) == shown == without_password(shown)


def test_a_source_with_a_password_is_read_and_written_nowhere(
    server: FileServer, canaries: None, store: str, database: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.files["/data/reviews_a.json.gz"] = gzip.compress("\n".join(_REVIEWS).encode())
    server.files["/data/meta_a.json.gz"] = gzip.compress(
        "\n".join(f"{{'asin': 'B{item}', 'categories': [['Books', 'One']]}}" for item in range(9)).encode()
    )
    source = f"{server.url.replace('://', f'://me:{CANARY}@')}/data?token={CANARY}"
    server.files |= {f"{name}?token={CANARY}": content for name, content in server.files.items()}
    words = ["--raw", tmp_path / "raw", "--source", source, "--files", "reviews_a.json.gz,meta_a.json.gz"]
    assert command("download", [*map(str, words), "--cache_dir", str(tmp_path / "cache")]) == 0, capfd.readouterr()
    words = [
        "--raw",
        tmp_path / "raw",
        "--parquet",
        tmp_path / "parquet",
        "--workers=1",
        "--shortest_sequence_for_user=5",
        "--split=last_item",
    ]
    assert command("preprocess", list(map(str, words))) == 0, capfd.readouterr()
    server.files.clear()
    words = ["--raw", tmp_path / "again", "--source", source, "--files", "reviews_a.json.gz,meta_a.json.gz"]
    assert command("download", list(map(str, words))) == 2
    assert "me:***@" in (tmp_path / "parquet" / "_manifest.json").read_text()
    assert holds_canary(tmp_path) == [] and CANARY not in "".join(capfd.readouterr())
    assert holds_canary(database.parent) == []


def test_a_run_hands_its_steps_a_password_by_the_environment_alone(
    server: FileServer, empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Arguments of processes are seen by all users of a machine; kfp.local writes them into files, too."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "runs").mkdir()
    shutil.copy(empty_database, tmp_path / "runs")
    for name, text in (("reviews_a.json.gz", _REVIEWS[0]), ("meta_a.json.gz", "{'asin': 'B0', 'categories': []}")):
        server.files[f"/data/{name}?token={CANARY}"] = gzip.compress(f"{text}\n".encode())
    source = f"{server.url.replace('://', f'://me:{CANARY}@')}/data?token={CANARY}"
    commands: list[str] = []

    def run_step(full_command: Sequence[str]) -> int:
        commands.extend(full_command)
        return _run_step(full_command)

    words = ["--model=din", f"--source={source}", "--set=files=reviews_a.json.gz,meta_a.json.gz"]
    with steps_in_process(), mock.patch.object(subprocess_task_handler, "run_local_subprocess", run_step):
        assert main(["run", f"--workdir={tmp_path / 'runs'}", *words]) == 2
    said = "".join(capfd.readouterr())
    assert "download   done" in said and "shortest_sequence_for_user" in said
    assert any("me:***@" in word for word in commands) and CANARY not in "".join(commands) + said
    assert holds_canary(tmp_path) == []


def test_a_tracking_uri_with_a_password_is_shown_by_no_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    (tmp_path / "rows.csv").write_text("user,history,item\n")
    files = [f"--input={tmp_path / 'rows.csv'}", f"--output={tmp_path / 'out.csv'}"]
    commands: list[list[str]] = [
        ["ui"], ["predict", "m@champion", *files], ["recommend", "u", "--model=m@champion"], ["serve", "m/1"],
        ["serve-manifest", "m/1"], ["run", f"--workdir={tmp_path / 'runs'}"],
    ]  # fmt: skip
    for words in commands:
        main([*words, f"--tracking-uri=http://me:{CANARY}@127.0.0.1:9?token={CANARY}"])
        said = "".join(capfd.readouterr())
        assert "http://me:***@127.0.0.1:9" in said and CANARY not in said, words
    assert holds_canary(tmp_path) == []


def test_a_message_has_no_password_whoever_writes_it() -> None:
    assert str(KfrecError(f"https://me:{CANARY}@host/a: no such file")) == "https://me:***@host/a: no such file"


def test_a_summary_has_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {
        "model/training.json": {"train_samples_per_second": 1, "time_to_train": 1, "seed": 1},
        "evaluation/metrics.json": {"test_auc": 0.5, "test_logloss": 0.7},
        "registration/registration.json": dict.fromkeys(("registered_model", "version", "alias", "reason", "run_id")),
    }
    for name, body in contents.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(json.dumps(body))
    outputs = {name.partition("/")[0]: str(tmp_path / name.partition("/")[0]) for name in contents}
    finished = {"train": {"outputs": outputs, "seconds": 1, "rows": 1, "counts": {}}}
    monkeypatch.setattr("pipelines.summary.digests_of", lambda _: {})
    given = {"source": f"https://{CANARY}@host", "files": ""}
    summary = summarise("", Pipeline(), given, finished, f"postgresql://me:{CANARY}@host/db", "kfrec ui")
    assert CANARY not in json.dumps(summary) and summary["mlflow"]["tracking_uri"] == "postgresql://me:***@host/db"


def test_the_record_of_a_run_has_no_password(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, Pipeline(), {"source": f"https://me:{CANARY}@host/data"}, "sqlite:///a.db")
    record.write()
    assert read_record(tmp_path).parameters == {"source": "https://me:***@host/data"}
    assert holds_canary(tmp_path) == []
    assert CANARY in record.parameters["source"]  # the run itself goes on with it


def test_the_folder_of_a_run_is_closed_to_others(tmp_path: Path) -> None:
    assert run_folder(tmp_path / "runs").stat().st_mode & 0o077 == 0


def test_a_compiled_pipeline_has_no_credential(
    canaries: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "--model=din", f"--output={tmp_path}"]) == 0
    assert list(tmp_path.rglob("*.yaml")) and holds_canary(tmp_path) == []
    assert CANARY not in "".join(capfd.readouterr())


def test_a_password_is_not_handed_to_kfp(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "--set", f"source=https://me:{CANARY}@host/data", "--endpoint=http://127.0.0.1:9"]) == 2
    said = "".join(capfd.readouterr())
    assert "parameter source='https://me:***@host/data': KFP keeps parameters" in said, said
    assert said.count("\n") == 1 and CANARY not in said


def test_nothing_that_came_from_outside_is_unpickled() -> None:
    """A pickle runs code when it is read: no module loads one, and NumPy's files are read without."""
    root = Path(__file__).parents[1]
    loads = re.compile(r"\b(?:pickle|cloudpickle|dill|joblib)\.loads?\(|allow_pickle\s*=\s*True|read_pickle\(|Workflow\.load\(|yaml\.(?:unsafe_)?load\(")  # fmt: skip # noqa: E501
    modules = [path for part in ("components", "pipelines", "images") for path in (root / part).rglob("*.py")]
    assert len(modules) > 300
    assert [str(path) for path in modules if loads.search(path.read_text())] == []
