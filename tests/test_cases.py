"""Inputs of a kind that people reported in public: each works, or ends with one line that says why.

``KFREC_CASES`` names folders, separated by colons, that hold a folder for each case. A case with a ``run.sh`` is run by
its commands; the others have a test each.
"""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from components.datasets.events import DATASET
from components.find.versions import data_versions, new_rows
from components.scoring.served import Served
from components.steps.command import command
from pipelines.cli import main
from tests.pipelines.in_process import steps_in_process

ROOTS = [Path(root) for root in os.environ.get("KFREC_CASES", "").split(os.pathsep) if root]
CASES = {folder.name: folder for root in ROOTS for folder in sorted(root.iterdir()) if folder.is_dir()}
pytestmark = pytest.mark.skipif(not CASES, reason="KFREC_CASES names no folders with cases")


def commands(script: Path) -> list[list[str]]:
    """The commands of a script, one after the other; none if it has others than those of ``run``."""
    lines = [line for line in script.read_text().splitlines()[2:] if line and not line.startswith("#")]
    if "<<" in script.read_text():
        return []
    split = [shlex.split(part) for line in lines for part in line.removesuffix(" || exit").split(" && ")]
    return split if all(words[0] in ("python", "kfrec", "cp") for words in split) else []


def is_slow(folder: Path) -> bool:
    """Whether a script trains, or needs processes of its own."""
    found = commands(folder / "run.sh")
    return not found or any(words[0] == "kfrec" or "components.train" in words for words in found)


def run(words: Sequence[str]) -> int:
    """Runs a command in this process."""
    try:
        if words[0] == "cp" or "components.artifacts" in words:
            return subprocess.run(
                [sys.executable if words[0] == "python" else words[0], *words[1:]], check=False
            ).returncode
        if words[0] == "kfrec":
            return main(words[1:])
        if words[1] == "-m":
            return command(words[2].removeprefix("components."), words[3:])
        runpy.run_path(words[1], run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a case, as working directory."""
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (copy / "work").mkdir(exist_ok=True)
    monkeypatch.chdir(copy)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    return copy


SCRIPTS = [
    pytest.param(folder, marks=[pytest.mark.slow] if is_slow(folder) else [], id=name)
    for name, folder in CASES.items()
    if (folder / "run.sh").is_file()
]


@pytest.mark.parametrize("folder", SCRIPTS)
def test_a_case_works_or_ends_with_one_line(
    folder: Path,
    tmp_path: Path,
    empty_database: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = (folder / "run.sh").read_text()
    if "unshare" in script and os.geteuid() != 0:
        pytest.skip("needs root, for namespaces of its own")
    copy = here(folder, tmp_path, monkeypatch)
    if listed := commands(copy / "run.sh"):
        (copy / "work" / "runs").mkdir()
        shutil.copy(empty_database, copy / "work" / "runs")
        with steps_in_process():
            status = next((failed for words in listed if (failed := run(words))), 0)
    else:
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        status = subprocess.run(["bash", "run.sh"], check=False).returncode
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err and "check: WRONG" not in out
    assert status in (0, 2)
    # A step says it, and so does kfrec run.
    errors = {line.partition("; resume with")[0] for line in err.splitlines() if line.startswith("error: ")}
    assert len(errors) == (status == 2)


def case(number: str) -> Path:
    """The folder of a case, by the number that its name begins with."""
    found = [folder for name, folder in CASES.items() if name.startswith(f"{number}-")]
    return found[0] if found else pytest.skip(f"no case {number} in KFREC_CASES")


def test_the_same_events_in_another_file_type_are_not_new() -> None:
    older, newer = data_versions(str(case("310") / "logs"), DATASET.raw)[0]
    assert new_rows(newer, older) == 0


@pytest.fixture
def trained(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workdir of the runs of a test."""
    (tmp_path / "runs").mkdir()
    shutil.copy(empty_database, tmp_path / "runs")
    return tmp_path / "runs"


def train(folder: Path, workdir: Path) -> None:
    words = ["--dataset=events", f"--source={folder / 'data'}", f"--workdir={workdir}"]
    with steps_in_process():
        assert main(["run", "--model=sim", *words, "--set", "train_seed=1", "--set", "epochs=1"]) == 0


@pytest.mark.slow
def test_a_blank_history_in_a_file_of_users_is_that_of_the_data(
    tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = here(case("302"), tmp_path, monkeypatch)
    train(copy, trained)
    lists = []
    for users in ("u1.csv", "u2.csv", "u3.jsonl"):
        output = tmp_path / f"{users}.csv"
        named = ["--model=last", f"--workdir={trained}", f"--users={copy / users}", f"--output={output}"]
        assert main(["recommend", *named, "--top=3"]) == 0
        lists.append(pd.read_csv(output)["item"].tolist()[:3])
    assert lists == lists[:1] * 3


@pytest.mark.slow
def test_a_request_names_its_candidates_by_ids_of_any_type(
    tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(here(case("312"), tmp_path, monkeypatch), trained)
    (model,) = trained.glob("*/*/train/model")
    rows = pd.DataFrame([{"user": 9223372036854775816, "history": [1152921504606846978]}])
    of_text = pd.DataFrame([{"user": "9223372036854775816", "history": ["1152921504606846978"]}])
    served, only = Served(model), 1152921504606846980
    found = [
        served.predict(given, top=3, candidates=[candidate])
        for given in (rows, of_text)
        for candidate in (only, str(only))
    ]
    assert [lists["item"].tolist() for lists in found] == [[str(only)]] * 4
