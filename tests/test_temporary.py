import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from components.errors import KfrecError, explain_os_error
from components.steps.command import command
from components.temporary import temporary_folder
from pipelines.cli import main

_HOLDER = """
import sys, time
from components.temporary import temporary_folder
with temporary_folder() as folder:
    (folder / "module.py").write_text("left by a step")
    print(folder, flush=True)
    time.sleep(3600)
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_what_the_steps_of_a_run_leave_goes_with_it(tmp_path: Path) -> None:
    with temporary_folder() as folder:
        (folder / "module.py").write_text("left by a step")
        assert folder.parent == tmp_path
    # The folder of multiprocessing goes with the process.
    assert [path for path in tmp_path.iterdir() if not path.name.startswith("pymp-")] == []


def test_the_folder_of_a_killed_run_goes_with_the_next_one_and_a_living_ones_stays(tmp_path: Path) -> None:
    runs = [subprocess.Popen([sys.executable, "-c", _HOLDER], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    dead, alive = (Path(run.stdout.readline().strip()) for run in runs if run.stdout)
    runs[0].kill()
    runs[0].wait()
    (tmp_path / "kfrec-run-of-somebody").write_text("a file")
    (tmp_path / "kfrec-run-results").mkdir()
    (tmp_path / "kfrec-run-results" / "summary.json").write_text("{}")
    with temporary_folder():
        assert not dead.exists() and (alive / "module.py").exists()
    assert (tmp_path / "kfrec-run-of-somebody").exists()
    assert (tmp_path / "kfrec-run-results" / "summary.json").exists()
    runs[1].kill()
    runs[1].wait()


def test_a_folder_that_another_run_removes_before_it_is_locked_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    removed: list[Path] = []

    def late(descriptor: int, operation: int) -> None:
        if not removed:
            removed.extend(tmp_path.glob("kfrec-run-*"))
            shutil.rmtree(removed[0])
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with temporary_folder() as folder:
        assert folder.is_dir() and folder not in removed


def test_what_a_command_of_a_step_leaves_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As TensorFlow leaves the modules that it generates where a process is killed or ends at once."""

    def fail(*_: object, **__: object) -> None:
        (Path(tempfile.gettempdir()) / "__autograph_generated_file.py").write_text("")
        assert os.environ["TMPDIR"] == tempfile.gettempdir()
        raise KfrecError("no good")

    monkeypatch.setattr("components.download.step.run", fail)
    assert command("download", ["--raw", str(tmp_path / "raw")]) == 2
    assert os.environ["TMPDIR"] == str(tmp_path) and not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_of_temporary_files_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "kfrec", disk], capture_output=True).returncode:
        pytest.skip("cannot mount")
    try:
        monkeypatch.setenv("TMPDIR", str(disk))
        monkeypatch.setattr(tempfile, "tempdir", None)
        with pytest.raises(OSError) as full, tempfile.TemporaryFile() as file:
            file.write(bytes(1 << 20))
            file.flush()
        assert str(explain_os_error(full.value)) == (
            f"{disk}: the disk of temporary files is full; free some space, or point TMPDIR to another folder"
        )
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_no_place_for_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(KfrecError, match="point TMPDIR to one that can"), temporary_folder():
        pass


def test_a_workdir_that_is_given_wins_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere:5000")
    (tmp_path / "mlflow.db").touch()
    assert main(["ui", "--print-only", "--workdir", str(tmp_path)]) == 0
    assert f"sqlite:///{tmp_path}/mlflow.db" in capsys.readouterr().out
    assert main(["ui", "--print-only", "--workdir", str(tmp_path), "--tracking-uri", "http://third:5000"]) == 0
    assert "server at http://third:5000" in capsys.readouterr().out


_WORKERS = """
from components.temporary import temporary_folder
from components.workflows.workers import dask_workers
with temporary_folder(), dask_workers(2, "", 4):
    print("started")
"""


@pytest.mark.slow
def test_workers_start_with_a_long_tmpdir(tmp_path: Path) -> None:
    """Batch systems name it after user, queue and job; the address of a socket has 107 characters."""
    folder = tmp_path / ("x" * 90)
    folder.mkdir()
    environment = os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", _WORKERS], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "started\n" and not list(folder.iterdir())
