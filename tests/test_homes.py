"""kfrec runs as any user of a machine: whoever owns HOME, or without one, and with any umask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# From raw files to samples, on two Dask workers, and MLflow's store.
_STEPS = """
import sys
from components.steps.command import command
from pipelines.cli import main
raw, parquet, workdir = sys.argv[1:]
sizes = ["--synthetic_users=60", "--synthetic_items=100", "--dataset=amazon_reviews"]
status = command("download", [f"--raw={raw}", *sizes])
words = [f"--raw={raw}", f"--parquet={parquet}", "--workers=2", "--shortest_sequence_for_user=5"]
sys.exit(status or command("preprocess", words) or main(["models", f"--workdir={workdir}"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("home", "mask"),
    [
        ("own", 0o077), ("own", 0o000), ("of another user", 0o022), ("/proc", 0o022), ("/nowhere", 0o022),
        ("", 0o022),
    ],
)  # fmt: skip
def test_the_steps_run_whatever_the_home_and_the_umask(
    home: str, mask: int, empty_database: Path, tmp_path: Path
) -> None:
    """Nobody, root included, can write to /proc."""
    place = tmp_path / "home"
    place.mkdir()
    if home == "of another user" and os.geteuid() == 0:
        os.chown(place, 12345, 12345)
    (tmp_path / "mlflow.db").write_bytes(empty_database.read_bytes())
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOME", "XDG_", "MLFLOW_"))
    }
    if home:
        environment["HOME"] = home if home.startswith("/") else str(place)
    words = [tmp_path / "raw", tmp_path / "parquet", tmp_path]
    program = [sys.executable, "-c", _STEPS, *map(str, words)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, umask=mask)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "parquet" / "_manifest.json").is_file() and "Traceback" not in done.stderr
