"""benchmarks/gpu.sh, tried without a GPU and as the launcher of an MPIJob calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.train.launching.transports import mpi_environment

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"


def run(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    binaries = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = os.environ | {"PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": "-1", "PATH": binaries} | variables
    return subprocess.run(["bash", str(SCRIPT), str(folder)], env=given, capture_output=True, text=True)


@pytest.mark.slow
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = run(tmp_path / "data")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: TensorFlow sees no GPU") and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_launcher_measures_on_the_workers_that_its_operator_lists(tmp_path: Path) -> None:
    hosts = tmp_path / "hostfile"
    hosts.write_text("localhost slots=1\n")
    done = run(
        tmp_path / "data",
        **mpi_environment(),
        OMPI_MCA_orte_default_hostfile=str(hosts), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        ON_CPU="1", STEPS="2", WARMUP="1", TRAIN_ROWS="200", TEST_ROWS="64", TRAIN_BATCH="64", BATCHES="128",
        PRECISIONS="float32", COMPILED="off", OPTIONS="--model_type din --embedding_dim 4",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ")[:4] for line in done.stdout.splitlines() if line.startswith("| 1 ")]
    assert rows == [["| 1", batch, "float32", "off"] for batch in ("64", "128")]
