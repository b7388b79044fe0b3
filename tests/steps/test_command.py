import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from components.artifacts.folder import open_artifact
from components.parameters import parameters_of
from components.steps.catalog import STEPS
from components.steps.command import command, component, use_mounted_environment


@pytest.mark.parametrize("name", STEPS)
def test_help_names_every_parameter_with_unit_and_default(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command(name, ["--help"])
    assert not ended.value.code
    words = " ".join(capsys.readouterr().out.split())
    for parameter in parameters_of(STEPS[name].parameters()):
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


@pytest.mark.parametrize("uri", ["gs://bucket/out", "file:///tmp/out"])
def test_a_uri_is_no_folder_of_this_machine(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("download", ["--raw", uri]) == 2
    assert capsys.readouterr().err == f"error: download: --raw {uri} is a URI; name a folder of this machine\n"
    assert not list(tmp_path.iterdir())


def test_a_parameter_goes_by_its_pipeline_wide_name_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("seed", "train_seed"):
        assert command("train", ["--tfrecord", "in", "--model", str(tmp_path / "out"), f"--{name}=x"]) == 2
        assert "parameter seed='x' is not a whole number" in capsys.readouterr().err


def test_an_unknown_argument_is_one_line_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command("download", ["--raw", "out", "--synthetic_user=3"])
    assert capsys.readouterr().err.splitlines() == [
        "error: download: unknown argument --synthetic_user, perhaps --synthetic_users; "
        "see python -m components.download --help"
    ]


def test_a_step_says_what_it_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KFREC_EVENTS", raising=False)
    assert command("download", ["--raw", str(tmp_path / "raw"), "--synthetic_users=20"]) == 0
    counts, place = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"download: [\d,]+ reviews, [\d,]+ items in \d+\.\d s", counts)
    assert re.fullmatch(rf"raw: \d+\.\d kB in {tmp_path}/raw", place)


def test_no_folder_for_temporary_files_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("tempfile.gettempdir", refuse)
    assert command("download", ["--raw", str(tmp_path / "raw")]) == 2
    assert "no folder for temporary files can be written" in capsys.readouterr().err


def test_too_little_memory_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("components.download.step.run", lambda *_, **__: np.empty(1 << 60, np.uint8))
    assert command("download", ["--raw", str(tmp_path / "raw"), "--synthetic_users=9"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: download: out of memory (Unable to allocate 1.00 EiB")
    assert not list(tmp_path.iterdir())


def _component(tmp_path: Path, options: dict[str, Any], **fields: Any) -> None:
    """The download step as KFP calls it."""
    raw = SimpleNamespace(path=str(tmp_path / "raw"), uri=str(tmp_path / "raw"), metadata={})
    defaults = {"synthetic_users": 20, "seed": 1, "attempts": 5}
    component("download", {"raw": raw, "dataset": "amazon_reviews", "defaults": defaults, "options": options, **fields})


def test_a_component_takes_what_has_no_input_of_its_own_from_its_json_objects(tmp_path: Path) -> None:
    _component(tmp_path, {"seed": 2.0}, source="synthetic")
    recorded = open_artifact(tmp_path / "raw").parameters
    assert (recorded["seed"], recorded["synthetic_users"], recorded["source"]) == (2, 20, "synthetic")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sed": 2}, "download_options: unknown parameter sed: did you mean seed?"),
        ({"source": "gs://b/d"}, "download_options: source is a field of its own; set it there"),
        ({"seed": "two"}, "parameter seed='two' is not a whole number"),
        ({"epochs": 2}, "download_options: unknown parameter epochs: there are synthetic_users, seed, attempts"),
    ],
)
def test_a_wrong_option_is_one_line_in_the_first_second(
    tmp_path: Path, options: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        _component(tmp_path, options, source="synthetic")
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: download: {message}") and not (tmp_path / "raw").exists()


def test_what_the_pipeline_sets_for_a_refit_holds_over_a_users_option(tmp_path: Path) -> None:
    _component(tmp_path, {"seed": 2, "source": "gs://b/d"}, source="synthetic", refitting=True)
    recorded = open_artifact(tmp_path / "raw").parameters
    assert (recorded["seed"], recorded["source"]) == (2, "synthetic")


def test_mounted_files_named_like_variables_become_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, job = tmp_path / "mlflow", tmp_path / "job"
    for folder in (secret / "..data", job):
        folder.mkdir(parents=True)
    (secret / "..data" / "KFREC_TEST_PASSWORD").write_text("s3cret\n")
    # As the kubelet lays a volume out: the file is a link into ..data.
    (secret / "KFREC_TEST_PASSWORD").symlink_to("..data/KFREC_TEST_PASSWORD")
    (job / "mpijob.yaml").write_text("image: x\n")
    monkeypatch.setattr(os, "environ", {"OWN": "1"})
    use_mounted_environment(tmp_path)
    assert os.environ == {"OWN": "1", "KFREC_TEST_PASSWORD": "s3cret"}


def test_a_mounted_variable_that_is_set_already_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "KFREC_TEST_SET").write_text("mounted")
    (tmp_path / "config" / "KFREC_TEST_UNSET").write_text("mounted")
    monkeypatch.setattr(os, "environ", {"KFREC_TEST_SET": "own"})
    use_mounted_environment(tmp_path)
    assert os.environ == {"KFREC_TEST_SET": "own", "KFREC_TEST_UNSET": "mounted"}


def test_a_machine_without_mounts_sets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    use_mounted_environment(tmp_path / "absent")
    assert os.environ == {}


def test_blanks_around_the_equals_sign_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command("download", ["--raw", "out", "--synthetic_users", "3", "=", "4"])
    assert "unknown argument =; write NAME=VALUE without blanks" in capsys.readouterr().err
