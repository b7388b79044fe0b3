"""Passwords in addresses and keys in the environment stay out of all that is written."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from kfp.local import subprocess_task_handler

from components.errors import KfrecError
from components.parameters import parameters_of
from components.secrets import without_password
from components.steps.catalog import STEPS
from components.steps.command import command
from components.storage import Retry
from pipelines.cli import COMMANDS, main, parser
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
        ("https:/me:secret@host/a: no such file", "https:/me:***@host/a: no such file"),
        ("file:/home/me@work/a", "file:/home/me@work/a"),
        ("https://me:pa?s#s@host/a", "https://me:***@host/a"),
        ("https://ghp_abc@host/a@b", "https://***@b"),
        ("https://host:80/a?mail=b@c", "https://host:80/a?mail=b@c"),
        ("a,https://host/a,https://me:secret@host/b", "a,https://host/a,https://me:***@host/b"),
        ("https://host/a?sas=b&code=c&access=d&my_jwt=e", "https://host/a?sas=***&code=***&access=***&my_jwt=***"),
        ("https://host/a;token=b?n=1&session=d", "https://host/a;token=***&session=***"),
        ("https://host/a?bearer=c&jsessionid=d&hmac=e&n=2", "https://host/a?bearer=***&jsessionid=***&hmac=***&n=2"),
        ("https://host/a?country_code=de#token=b", "https://host/a?country_code=de#token=***"),
        ("ab:/" * 300_000 + "a b@c", "ab:/" * 300_000 + "a b@c"),
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

    def run_step(full_command: Sequence[str], env_vars: Mapping[str, str]) -> int:
        commands.extend([*full_command, *env_vars.values()])
        return _run_step(full_command)

    words = ["--model=din", f"--source={source}", "--set=files=reviews_a.json.gz,meta_a.json.gz"]
    with steps_in_process(), mock.patch.object(subprocess_task_handler, "run_local_subprocess", run_step):
        assert main(["run", f"--workdir={tmp_path / 'runs'}", *words]) == 2
    said = "".join(capfd.readouterr())
    assert "download   done" in said and "no user has two events" in said
    assert any("me:***@" in word for word in commands) and CANARY not in "".join(commands) + said
    assert holds_canary(tmp_path) == []


_IN_PROCESSES = r"""
import sys
from pathlib import Path
from components.steps import command
command.call = lambda step, values, folders: print(values["source"], Path("/proc/self/cmdline").read_text())
sys.exit(command.command("download"))
"""


@pytest.mark.parametrize("inherited", [True, False])
def test_the_environment_holds_the_password_of_an_argument(inherited: bool, tmp_path: Path) -> None:
    source = f"https://me:{CANARY}@host/data"
    words = [f"--raw={tmp_path}", "--source=${WHERE}" if inherited else f"--source={source}"]
    program = [sys.executable, "-c", _IN_PROCESSES, *words]
    done = subprocess.run(program, env=os.environ | {"WHERE": source}, capture_output=True, text=True, check=True)
    given, arguments = done.stdout.split(maxsplit=1)
    assert given == source and (CANARY in arguments) is not inherited and CANARY not in done.stderr
    remedy = "put the value into an environment variable, such as SOURCE, and give '${SOURCE}' in its place"
    assert (f"sees the password in --source=https://me:***@host/data; {remedy}" in done.stderr) is not inherited


def test_a_variable_that_is_not_set_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WHERE", raising=False)
    for job in (
        partial(main, ["run", "--set=source=${WHERE}"]),
        partial(command, "download", ["--source", "${WHERE}"]),
    ):
        with pytest.raises(SystemExit, match="2"):
            job()
        assert "${WHERE}: the environment variable WHERE is not set" in capfd.readouterr().err


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


FORMS = (
    f"http://me:{CANARY}/x@127.0.0.1:9/a?token={CANARY}&key={CANARY}&pass={CANARY}&auth={CANARY}&X-Amz-Signature={CANARY}",
    f"https://{CANARY}@127.0.0.1:9/a",
    f"s3://AKIA:{CANARY}/x@bucket/a?endpoint=127.0.0.1:9",
    f"postgresql://me:{CANARY}@127.0.0.1:9/a",
)
# These name folders that are made on this machine, and a shell.
_FOLDERS = {"workdir", "output", "cache_dir", "shared_folder", "shell"}


@pytest.fixture
def watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[Callable[[], int]], None]:
    """Runs a command with secrets and looks for them in what it printed, wrote, and passed to processes."""
    started: list[object] = []
    start = subprocess.Popen.__init__

    def noting(process: subprocess.Popen[bytes], args: object, *others: Any, **options: Any) -> None:
        started.append(args)
        start(process, args, *others, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess.Popen, "__init__", noting)
    make = Retry.__init__
    at_once: dict[str, Any] = {"sleep": lambda seconds: None}
    monkeypatch.setattr(Retry, "__init__", lambda retry, *given, **named: make(retry, *given, **at_once | named))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("KFP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)

    def run(job: Callable[[], int]) -> None:
        with suppress(SystemExit):
            job()
        said = "".join(capfd.readouterr())
        assert CANARY not in said, said
        assert holds_canary(tmp_path) == [] and CANARY not in str(started)

    return run


def _options(name: str) -> list[argparse.Action]:
    """The options and arguments of a command that take any text."""
    commands = next(action.choices for action in parser()._actions if isinstance(action.choices, dict))
    return [
        action
        for action in commands[name]._actions
        if action.nargs in (None, "?") and not action.choices and action.type is None and action.dest not in _FOLDERS
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*COMMANDS} - {"completion"}))
def test_no_command_shows_writes_or_passes_a_secret(name: str, watched: Callable[[Callable[[], int]], None]) -> None:
    options = _options(name)
    others = [action for action in options if action.required]
    # --source sets the same parameter.
    for action in (action for action in options if (name, action.dest) != ("run", "set")):
        for form in FORMS:
            words = [name]
            for one in dict.fromkeys([*others, action]):
                given = form if one is action else "plain.csv"
                given = f"source={given}" if one.dest == "set" else given
                words += [one.option_strings[0], given] if one.option_strings else [given]
            with steps_in_process():
                watched(partial(main, words))


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_no_step_shows_writes_or_passes_a_secret(name: str, watched: Callable[[Callable[[], int]], None]) -> None:
    step = STEPS[name]
    folders = [f"--{folder}={folder}" for folder in (*step.inputs, *step.outputs)]
    for parameter in parameters_of(step.parameters({})):
        if isinstance(parameter.default, str) and not parameter.choices and parameter.name not in _FOLDERS:
            for form in FORMS:
                words = [*folders, f"--{parameter.name}={form}"]
                watched(partial(command, name, words))


def test_a_message_has_no_password_whoever_writes_it() -> None:
    assert str(KfrecError(f"https://me:{CANARY}@host/a: no such file")) == "https://me:***@host/a: no such file"


def test_a_summary_has_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {
        "model/training.json": {"train_samples_per_second": 1, "time_to_train": 1, "seed": 1},
        "evaluation/metrics.json": {"test_auc": 0.5, "test_auc_low": 0.4, "test_logloss": 0.7},
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


@pytest.mark.slow
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
