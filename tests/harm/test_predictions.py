"""kfrec predict, recommend and serve-manifest, and the predict step, with what they cannot use."""

from __future__ import annotations

import gzip
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from components.artifacts import adopt
from tests.harm.place import MODEL, ROWS, everything, folders_of, run_here
from tests.harm.test_kills import end, nothing_goes_on, started

pytestmark = pytest.mark.slow

_HEAD = "user,history,item\n"
_LINE = "U1,B000|B001,B002\n"
_FILES: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("a.csv", b"", "a.csv"),
    "a header alone": ("a.csv", _HEAD.encode(), "no rows"),
    "no item": ("a.csv", b"user,history\nU1,B000\n", "no column item"),
    "another separator": ("a.csv", b"user;history;item\nU1;B000;B001\n", "separated by ';'"),
    "too few values": ("a.csv", f"{_HEAD}{_LINE}U1\n".encode(), "a.csv"),
    "a column twice": ("a.csv", b"user,history,item,item\nU1,B000,B001,B001\n", "two columns 'item'"),
    "scores already": ("a.csv", b"user,history,item,probability\nU1,B000,B001,0.5\n", "probability"),
    "a quote left open": ("a.csv", f'{_HEAD}U1,B000,"B001\n{_LINE}'.encode(), "left open"),
    "latin-1": ("a.csv", f"{_HEAD}é,B000,B001\n".encode("latin-1"), "UTF-8"),
    "utf-16": ("a.csv", f"{_HEAD}{_LINE}".encode("utf-16"), "a.csv"),
    "binary": ("a.csv", bytes(range(256)) * 20, "a.csv"),
    "a format that is none": ("a.xlsx", b"PK", "unknown format"),
    "no format": ("table", b"x", "unknown format"),
    "gzip that is none": ("a.csv.gz", f"{_HEAD}{_LINE}".encode(), "a.csv.gz"),
    "gzip cut off": ("a.csv.gz", gzip.compress((_HEAD + _LINE * 5000).encode())[:-200], "a.csv.gz"),
    "json gzip cut off": ("a.jsonl.gz", gzip.compress(b'{"user": "U1"}\n' * 500)[:-20], "a.jsonl.gz"),
    "no parquet": ("a.parquet", b"PAR1" + bytes(40), "a.parquet"),
    "parquet of nothing": ("a.parquet", b"", "a.parquet"),
    "no json": ("a.jsonl", b'{"user": "U1"\n', "line 1"),
    "a list of json": ("a.jsonl", b"[1, 2]\n", "line 1"),
    "deep json": ("a.jsonl", b"[" * 100_000 + b"\n", "line 1"),
    "mixed json": ("a.jsonl", b'{"user": "U1", "item": "B1"}\n{"user": 7, "item": "B2"}\n', "user"),
    "a user of a fraction": ("a.jsonl", b'{"user": 1.5, "history": [], "item": "B1"}\n', "column user"),
    "a history of objects": ("a.jsonl", b'{"user": "U1", "history": {"a": 1}, "item": "B1"}\n', "column history"),
    "a history of numbers": ("a.jsonl", b'{"user": "U1", "history": [0.5], "item": "B1"}\n', "column history"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", _FILES)
def test_files_of_rows(wrong: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name, content, named = _FILES[wrong]
    (here / name).write_bytes(content)
    outcome = run_here(["kfrec", "predict", MODEL, f"--input={name}", "--output=out.parquet"], capfd)
    assert not outcome.surprise(name, named)
    shutil.rmtree(here / ROWS)
    (here / ROWS).mkdir()
    (here / name).rename(here / ROWS / name)
    assert not run_here(["predict", *folders_of("predict")], capfd).surprise("predict", ROWS)


def test_types_that_csv_cannot_hold(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame([{"user": "U1", "history": ["B000"], "item": "B1", "more": {"a": 1}}]).to_parquet(here / "a.parquet")
    outcome = run_here(["kfrec", "predict", MODEL, "--input=a.parquet", "--output=out.csv"], capfd)
    assert not outcome.surprise("out.csv", "more")


_OUTPUTS: dict[str, Callable[[Path], str]] = {
    "empty": lambda here: "",
    "the input": lambda here: f"{ROWS}/rows.csv",
    "the input by a link": lambda here: (here / "l.csv").symlink_to(here / ROWS / "rows.csv") or "l.csv",
    "of others": lambda here: str((here / "mine.csv").write_text("a,b\n1,2\n") and "mine.csv"),
    "of others, cut off": lambda here: str((here / "mine.parquet").write_text("PAR1") and "mine.parquet"),
    "a folder": lambda here: (here / "f.csv").mkdir() or "f.csv",
    "below a file": lambda here: "documents/thesis.txt/out.csv",
    "below nothing": lambda here: "none/out.csv",
    "no format": lambda here: "out",
    "another format": lambda here: "documents/thesis.txt",
    "a long name": lambda here: f"{'x' * 300}.csv",
    "a circle": lambda here: (here / "c.csv").symlink_to("c.csv") or "c.csv",
    "below proc": lambda here: "/proc/out.csv",
}


@pytest.mark.parametrize("wrong", _OUTPUTS)
def test_outputs(wrong: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = _OUTPUTS[wrong](here)
    given = ["kfrec", "predict", MODEL, f"--input={ROWS}/rows.csv", f"--output={place}"]
    assert not run_here(given, capfd).surprise(place[:50])
    given = ["kfrec", "recommend", "U1", f"--model={MODEL}", "--history=B000", f"--output={place}"]
    outcome = run_here(given, capfd)
    assert "input" in wrong or not outcome.surprise(place[:50])


_MODELS = [
    "", "none", "raw", "parquet", "nobodys@champion", "nobodys@no one", "nobodys/99", "models:/nobodys/0",
    "models:/", "models:/a", "a@b@c", "a/b/c", "@", "gs://", "ftp://here/model", "documents", "documents/thesis.txt",
    "x" * 300,
]  # fmt: skip


@pytest.mark.parametrize("model", _MODELS)
def test_models(model: str, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    commands = (
        ["kfrec", "predict", model, f"--input={ROWS}/rows.csv", "--output=out.csv"],
        ["kfrec", "recommend", "U1", f"--model={model}", "--history=B000"],
        ["kfrec", "serve-manifest", model],
        ["predict", *folders_of("predict"), f"--model_version={model}"],
    )
    for words in commands:
        assert not run_here(words, capfd).surprise(), words


def test_models_where_there_is_no_registry(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for words in (["recommend", "U1", "--model"], ["serve-manifest"]):
        assert not run_here(["kfrec", *words, "ctr@champion"], capfd).surprise("ctr@champion", "no registry here")
    for words in (["recommend", "U1"], ["serve"], ["recommend", "U1", "--workdir=none"]):
        assert not run_here(["kfrec", *words], capfd).surprise("no such folder; start a run with kfrec run")
    assert not everything(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ["--top=0"], ["--top=-3"], ["--top=many"], ["--data=none"], ["--data=raw"], ["--data=gs://"], ["--candidates="],
        ["--candidates=none.csv"], ["--candidates=documents/thesis.txt"], [],
        ["--history=B000", "--candidates=rows/rows.csv/x.csv"], ["--history=B000", "--candidates=no_item.csv"],
        ["--histroy=a"], ["more"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_recommendations(words: list[str], here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "no_item.csv").write_text("asin\nB000\n")
    assert not run_here(["kfrec", "recommend", "U1", f"--model={MODEL}", *words], capfd).surprise()


@pytest.mark.parametrize(
    "words",
    [
        [], ["--all"], ["--all", "--output="], ["--all", "--output=documents/thesis.txt", "--data=shop"],
        ["--all", "--output=o.csv", "--data=none"], ["--all", "--output=o.csv", "--data=shop", "--history=B000"],
        ["--users=", "--output=o.csv"], ["--users=none.csv", "--output=o.csv"],
        ["--users=no_user.csv", "--output=o.csv", "--data=shop"], ["--users=empty.csv", "--output=o.csv"],
        ["--users=nobody.csv", "--output=o.csv", "--data=shop"], ["--users=no_name.jsonl", "--output=o.csv"],
        ["--users=numbers.jsonl", "--output=o.csv"], ["--all", "--users=nobody.csv", "--output=o.csv"],
        ["--users=nobody.csv", "--output=nobody.csv", "--data=shop"],
        ["--users=nobody.csv", "--candidates=no_name.jsonl", "--output=o.csv"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_recommendations_to_many(words: list[str], here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "no_user.csv").write_text("item\nB000\n")
    (here / "empty.csv").write_text("user\n")
    (here / "nobody.csv").write_text("user\nnobody\n")
    (here / "no_name.jsonl").write_text('{"user": null, "item": null, "history": []}\n')
    (here / "numbers.jsonl").write_text('{"user": "U1", "history": [[0.5]]}\n')
    before = everything(here)
    assert not run_here(["kfrec", "recommend", f"--model={MODEL}", *words], capfd).surprise()
    assert everything(here) == before


def test_a_user_that_is_not_in_the_data(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert not run_here(["kfrec", "recommend", "nobody", f"--model={MODEL}", "--data=shop"], capfd).surprise("nobody")
    assert not run_here(["kfrec", "recommend", " ", f"--model={MODEL}", "--data=shop"], capfd).surprise()


@pytest.mark.parametrize(
    "rows", ["", "none", "documents", "rows/none.csv", "gs://", "ftp://here", "http://127.0.0.1:9/"]
)
def test_rows_that_are_not_there(
    rows: str, here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.predict.step._RETRY", __import__("components.storage").storage.Retry(1))
    assert not run_here(["predict", *folders_of("predict"), f"--rows={rows}"], capfd).surprise("predict")


def test_a_model_whose_data_set_encodes_no_rows(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spec = here / MODEL / "feature_spec.yaml"
    for before, after in (("dataset: amazon_reviews", "dataset: outbrain"), ("dataset: outbrain", "other: x")):
        spec.write_text(spec.read_text().replace(before, after))
        adopt(here / MODEL)
        words = ["kfrec", "predict", MODEL, f"--input={ROWS}/rows.csv", "--output=out.csv"]
        assert not run_here(words, capfd).surprise("raw rows", "score records" if "x" in after else "score the records")


def test_a_command_that_is_ended_leaves_an_earlier_output_and_the_next_one_finishes(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["predict", MODEL, f"--input={ROWS}/rows.csv", "--output=out.csv"]
    assert run_here(["kfrec", *words], capfd).status == 0
    before = everything(here)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with started(["pipelines.cli", *words, "--batch-size=1"]) as (process, mark):
            while process.poll() is None and not (here / ".out.csv.kfrec.partial").exists():
                time.sleep(0.005)
            assert process.poll() is None, "it was quicker than the signal"
            said = end(process, number)
            assert nothing_goes_on(mark) and "Traceback" not in said
        left = {".out.csv.kfrec.partial"} if number == signal.SIGKILL else set()
        now = everything(here)
        assert now.keys() - before.keys() == left and {name: now[name] for name in before} == before
    assert run_here(["kfrec", *words], capfd).status == 0
    assert everything(here) == before
