import subprocess
import sys
from pathlib import Path

import pytest

from components.steps.catalog import STEPS
from components.steps.command import command
from components.steps.parameter import parameters_of


@pytest.mark.parametrize("name", STEPS)
def test_help_names_every_parameter_with_unit_and_default(name: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", f"components.{name}", "--help"], capture_output=True, text=True, check=True
    ).stdout
    words = " ".join(shown.split())
    for parameter in parameters_of(STEPS[name].parameters):
        assert f"--{parameter.name} " in words
        # argparse breaks lines at hyphens inside words too; compare without any white space.
        assert parameter.description.replace(" ", "") in words.replace(" ", ""), parameter.name


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, runpy, contextlib, io\n"
        "sys.argv = ['train', '--help']\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    runpy.run_module('components.train', run_name='__main__')\n"
        "print([m for m in ('tensorflow', 'nvtabular', 'mlflow', 'kfp', 'pandas', 'numba') if m in sys.modules])\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_bad_input_is_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "nowhere"
    status = command("tfrecord", ["--parquet", str(missing), "--tfrecord", str(tmp_path / "out")])
    assert status == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert errors == [f"error: tfrecord: {missing}: no such folder; run the step that writes it first"]
    assert not (tmp_path / "out").exists()


def test_a_bad_parameter_is_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = command("download", ["--raw", str(tmp_path / "raw"), "--attempts", "none"])
    assert status == 2
    assert "parameter attempts='none' is not a whole number" in capsys.readouterr().err
