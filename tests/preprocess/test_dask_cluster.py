"""Preprocessing on a Dask cluster that the user runs: its scheduler and workers are the manifest's commands."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from dask import delayed
from distributed import Client, LocalCluster

from components.artifacts import open_artifact
from components.errors import KfrecError, WorkerCrashed
from components.workflows.workers import dask_workers
from tests.datasets.amazon_reviews.raw import preprocess, random_reviews, raw_folder
from tests.fakes.end_of_a_run import kill_soon
from tests.fakes.handler import free_port
from tests.waiting import LONGEST, UNTIL_ENDED, wait_for

ROOT = Path(__file__).parents[2]
CATEGORIES = {f"i{number}": f"c{number % 4}" for number in range(25)}


def manifest_command(file: str) -> list[str]:
    """The command of the one container in a manifest of the component dask."""
    bodies = list(yaml.safe_load_all((ROOT / "manifests/components/dask" / file).read_text()))
    (container,) = bodies[-1]["spec"]["template"]["spec"]["containers"]
    return [sys.executable if word == "python" else word for word in container["command"]]


@dataclass
class DaskProcesses:
    """A scheduler and workers as processes."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        return self._start([*manifest_command("scheduler.yaml"), "--host=127.0.0.1", f"--port={self.port}"])

    def start_worker(self) -> subprocess.Popen[bytes]:
        words = manifest_command("workers.yaml")
        return self._start([re.sub(r"^tcp://.*", self.address, word) for word in words])

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        own = self.folder / f"process-{len(self.processes)}"
        own.mkdir(parents=True)
        places = {"PYTHONPATH": str(ROOT), "HOME": str(own), "TMPDIR": str(own)}
        with (own / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=own, env=os.environ | places | self.environment, stdout=log, stderr=log
            )
        self.processes.append(process)
        return process


@contextmanager
def dask_processes(folder: Path, workers: int, **environment: str) -> Iterator[DaskProcesses]:
    """The first process is the scheduler; the workers have connected."""
    cluster = DaskProcesses(folder, environment)
    try:
        cluster.start_scheduler()
        for _ in range(workers):
            cluster.start_worker()
        with Client(cluster.address, timeout=LONGEST, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=LONGEST)
        yield cluster
    finally:
        for process in cluster.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reviews = random_reviews(users=120, items=30, seed=1)
    return raw_folder(tmp_path_factory.mktemp("dask") / "raw", reviews, CATEGORIES)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    """One with a single worker."""
    with dask_processes(tmp_path_factory.mktemp("pods"), workers=1) as made:
        yield made


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    return tmp_path / "shared"


def options(cluster: DaskProcesses, shared: Path | str, reviews_per_partition: int = 50) -> dict[str, Any]:
    return {
        "scheduler": cluster.address,
        "shared_folder": str(shared),
        "reviews_per_partition": reviews_per_partition,
    }


@pytest.mark.slow
def test_workers_write_the_same_bytes_as_this_process_though_one_is_lost(
    raw: Path, tmp_path: Path, shared: Path
) -> None:
    preprocess(raw, tmp_path / "here", reviews_per_partition=50)
    with dask_processes(tmp_path / "pods", workers=2) as cluster:

        def lose_one() -> None:
            wait_for(lambda: list(shared.glob("*/scratch/histories-*.parquet")))
            cluster.processes[1].kill()

        loser = threading.Thread(target=lose_one)
        loser.start()
        preprocess(raw, tmp_path / "there", **options(cluster, shared))
        loser.join()
        assert cluster.processes[1].wait() == -signal.SIGKILL
    assert open_artifact(tmp_path / "there").digest == open_artifact(tmp_path / "here").digest
    assert list(shared.iterdir()) == []


@pytest.mark.slow
def test_a_stopped_step_ends_at_once_and_leaves_the_cluster_running(
    raw: Path, tmp_path: Path, shared: Path, cluster: DaskProcesses
) -> None:
    words = [f"--{name}={value}" for name, value in options(cluster, shared, 20).items()]
    command = [sys.executable, "-m", "components.preprocess", f"--raw={raw}", f"--parquet={tmp_path / 'out'}"]
    step = subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: list(shared.glob("*/scratch/*.arrow")))
    step.send_signal(signal.SIGTERM)
    kill_soon(step)
    assert [process.poll() for process in cluster.processes] == [None, None]
    preprocess(raw, tmp_path / "there", **options(cluster, shared))


@pytest.mark.slow
def test_workers_that_do_not_see_the_folder_are_found_before_the_work(
    raw: Path, tmp_path: Path, shared: Path, cluster: DaskProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another disk at the same path in every process, as two pods have it.
    monkeypatch.chdir(shared)
    with pytest.raises(
        KfrecError, match=r"^Dask worker tcp://.*: does not see /proc/self/cwd/.*/check/step .*one volume"
    ):
        preprocess(raw, tmp_path / "there", **options(cluster, "/proc/self/cwd"))
    assert list(shared.iterdir()) == [] and not (tmp_path / "there").exists()


def test_a_cluster_without_workers_is_one_line(raw: Path, tmp_path: Path, shared: Path) -> None:
    with (
        LocalCluster(
            n_workers=0, processes=False, protocol="tcp://", host="127.0.0.1", dashboard_address=None
        ) as cluster,
        pytest.raises(KfrecError, match=r"^scheduler tcp://127.0.0.1:\d+: has no workers; start some"),
    ):
        preprocess(raw, tmp_path / "there", scheduler=cluster.scheduler_address, shared_folder=str(shared))


@pytest.mark.slow
def test_workers_and_a_scheduler_that_end_at_their_work_are_one_line(tmp_path: Path) -> None:
    with dask_processes(tmp_path / "pods", 2, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as cluster:
        with (
            pytest.raises(
                WorkerCrashed, match=r"^1 Dask workers ended at the same task, probably killed .* memory; give"
            ),
            dask_workers(1, cluster.address, 1) as workers,
        ):
            list(workers.run([delayed(os._exit)(3)]))
        with (
            pytest.raises(WorkerCrashed, match=r"^the Dask scheduler has ended, .*run the step again"),
            dask_workers(1, cluster.address, 1) as workers,
        ):
            threading.Timer(0.5, cluster.processes[0].kill).start()
            list(workers.run([delayed(time.sleep)(UNTIL_ENDED)]))


def test_a_shared_folder_that_is_not_mounted_is_named(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"shared_folder /nowhere: cannot be written \(No such file"):
        preprocess(raw, tmp_path / "there", scheduler="tcp://127.0.0.1:9", shared_folder="/nowhere")


def test_what_a_killed_step_left_in_the_shared_folder_is_removed_after_a_week(
    raw: Path, tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.workflows.workers._CONNECT_SECONDS", 0.2)
    mine, users_own = ("kfrec-preprocess-old", 8), ("kfrec-preprocess-notes", 99)
    for name, days in (mine, ("kfrec-preprocess-new", 1), users_own, ("others", 99)):
        (shared / name).mkdir()
        written = shared / name / ("draft.txt" if (name, days) == users_own else ".kfrec-preprocess")
        written.touch()
        ago = time.time() - days * 86_400
        for path in (written, shared / name):
            os.utime(path, (ago, ago))
    with pytest.raises(KfrecError, match="no Dask scheduler answers"):
        preprocess(raw, tmp_path / "there", scheduler="tcp://127.0.0.1:9", shared_folder=str(shared))
    assert sorted(path.name for path in shared.iterdir()) == [
        "kfrec-preprocess-new",
        "kfrec-preprocess-notes",
        "others",
    ]
