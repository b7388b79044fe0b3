"""Preprocessing on a Dask cluster that an operator makes, with real schedulers and workers, and what goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from dask import delayed

from components.artifacts import open_artifact
from components.cluster import api
from components.cluster.owner import Owner
from components.errors import KfrecError, WorkerCrashed
from components.preprocess.dask_cluster import running
from components.preprocess.dask_cluster.body import dask_cluster
from components.preprocess.dask_settings import DaskSettings
from components.workflows.workers import dask_workers
from tests.fakes.dask_operator import DaskOperator
from tests.fakes.end_of_a_run import kill_soon
from tests.fakes.kubernetes_api import NAMESPACE, KubernetesApi, write_kubeconfig
from tests.preprocess.raw import preprocess, random_reviews, raw_folder
from tests.waiting import UNTIL_ENDED, wait_for

CATEGORIES = {f"i{number}": f"c{number % 4}" for number in range(25)}
VOLUME = {"persistentVolumeClaim": {"claimName": "kfrec-shared"}}
OLD = Owner("run", "u-1")


@dataclass
class Place:
    """A cluster, a data set, and the settings of the step."""

    api: KubernetesApi
    operator: DaskOperator
    folder: Path
    raw: Path

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    def settings(self, **changed: Any) -> Path:
        given = {"shared_folder": str(self.shared), "shared_volume": VOLUME, "start_seconds": 120,
                 "address": f"tcp://127.0.0.1:{self.operator.port}"} | changed  # fmt: skip
        path = self.folder / "dask.yaml"
        path.write_text(yaml.safe_dump(given))
        return path

    def preprocess(self, name: str, reviews_per_partition: int = 200, **changed: Any) -> Path:
        """Runs the step on two workers and returns its output."""
        settings = self.settings(**changed)
        small = dict(reviews_per_partition=reviews_per_partition, dask_workers=2, dask_settings=str(settings))
        preprocess(self.raw, self.folder / name, **small)
        return self.folder / name

    def nothing_left(self) -> bool:
        return self.api.live_jobs() == [] and list(self.shared.iterdir()) == []


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reviews = random_reviews(users=120, items=30, seed=1)
    return raw_folder(tmp_path_factory.mktemp("dask") / "raw", reviews, CATEGORIES)


@pytest.fixture
def place(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(running, "Pace", partial(running.Pace, look=0.3, answer=2.0))
    (tmp_path / "shared").mkdir()
    (tmp_path / "pods").mkdir()
    served = KubernetesApi()
    with served.served() as url, DaskOperator(served, tmp_path / "pods") as operator:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", url)))
        yield Place(served, operator, tmp_path, raw)


@pytest.mark.slow
def test_workers_elsewhere_write_the_same_bytes_as_this_process_though_one_is_lost(place: Place) -> None:
    preprocess(place.raw, place.folder / "here", reviews_per_partition=50)

    def lose_one() -> None:
        wait_for(lambda: list(place.shared.glob("*/scratch/histories-*.parquet")))
        place.operator.kill(place.operator.workers()[0])

    loser = threading.Thread(target=lose_one)
    loser.start()
    there = place.preprocess("there", reviews_per_partition=50)
    loser.join()
    assert place.operator.restarts == 1, "it ended too late"
    assert open_artifact(there).digest == open_artifact(place.folder / "here").digest
    assert place.nothing_left()
    used = {(method, path.split("/")[6] if "daskclusters" in path else path.split("/")[5])
            for method, path in place.api.requests}  # fmt: skip
    assert used <= {("GET", "daskclusters"), ("POST", "daskclusters"), ("DELETE", "daskclusters"), ("GET", "pods"),
                    ("GET", "events")}, "more than the role allows"  # fmt: skip


@pytest.mark.slow
def test_a_pod_without_a_node_is_told_and_the_cluster_deleted(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.operator.pending = "0/3 nodes are available: 3 Insufficient memory."
    with pytest.raises(KfrecError) as error:
        place.preprocess("there", start_seconds=8)
    assert "workers have come after 8 s" in str(error.value) or "does not answer after 8 s" in str(error.value)
    assert "has no node: 0/3 nodes are available: 3 Insufficient memory." in str(error.value)
    assert "raise start_seconds" in str(error.value) and "\n" not in str(error.value)
    assert "has no node" in capsys.readouterr().out, "told while it waits, too"
    assert place.nothing_left() and not (place.folder / "there").exists()


def test_a_quota_that_refuses_pods_is_told(place: Place) -> None:
    place.operator.pod_quota = "exceeded quota: team, requested: requests.memory=16Gi"
    with pytest.raises(KfrecError, match=r"does not answer after 5 s; pods cannot be created: .* exceeded quota: team"):
        place.preprocess("there", start_seconds=5)
    assert place.nothing_left()


@pytest.mark.slow
@pytest.mark.parametrize("waiting", [True, False], ids=["waiting", "working"])
def test_the_half_second_that_the_end_of_a_run_leaves_is_enough_to_delete_it(place: Place, waiting: bool) -> None:
    place.operator.pending = "no node" if waiting else ""
    command = [sys.executable, "-m", "components.preprocess", f"--raw={place.raw}", f"--parquet={place.folder / 'out'}",
               "--reviews_per_partition=20", "--dask_workers=2", f"--dask_settings={place.settings()}"]  # fmt: skip
    step = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(place.operator.workers)
    if waiting:
        wait_for(lambda: sum("-worker-" in name for name in list(place.api.pods)) == 2)
    else:
        wait_for(lambda: list(place.shared.glob("*/scratch/*.arrow")))
    step.send_signal(signal.SIGTERM)
    kill_soon(step)
    assert place.api.live_jobs() == []


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ({"forbidden": {"POST"}}, "may not do this in namespace kubeflow .*cannot create it.* apply the role"),
        ({"unknown": {"daskclusters"}}, r"knows no DaskCluster \(kubernetes.dask.org/v1\); install the Dask operator"),
        ({"quota": "exceeded quota: team"}, "exceeded quota: team"),
    ],
)
def test_a_cluster_that_may_not_be_is_one_line(place: Place, trouble: dict[str, Any], told: str) -> None:
    for name, value in trouble.items():
        setattr(place.api, name, value)
    with pytest.raises(KfrecError, match=told):
        place.preprocess("there")
    assert place.nothing_left() and not (place.folder / "there").exists()


def test_a_cluster_whose_creation_is_never_answered_is_not_left_behind(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_TIMEOUT", (1.0, 1.0))
    place.operator.pod_quota = "exceeded quota: team"
    place.api.unanswered = ["POST"]
    with pytest.raises(KfrecError, match="does not answer after 5 s; pods cannot be created"):
        place.preprocess("there", start_seconds=5)
    assert [method for method, _ in place.api.requests].count("POST") == 2 and place.nothing_left()


def test_what_may_not_be_deleted_is_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.operator.pod_quota = "exceeded quota: team"
    place.api.forbidden = {"DELETE"}
    with pytest.raises(KfrecError, match="exceeded quota"):
        place.preprocess("there", start_seconds=5)
    (name,) = place.api.live_jobs()
    assert f"delete it with kubectl -n kubeflow delete daskcluster {name}" in capsys.readouterr().out


def test_a_cluster_whose_step_has_ended_is_deleted_by_the_next_one(place: Place) -> None:
    place.operator.pod_quota = "exceeded quota"
    for name, phase in (("of-running", "Running"), ("of-failed", "Failed"), ("of-gone", "")):
        if phase:
            metadata, status = {"name": name}, {"phase": phase}
            place.api.put_pod({"kind": "Pod", "metadata": metadata, "status": status, "spec": {"containers": []}})
        place.api.create_job(dask_cluster(name, NAMESPACE, 2, DaskSettings(), OLD, pod=name))
    with pytest.raises(KfrecError):
        place.preprocess("there", start_seconds=5)
    assert place.api.live_jobs() == ["of-running"]


@pytest.mark.slow
def test_workers_that_do_not_see_the_folder_are_found_before_the_work(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another disk at the same path in every process, as two pods have it.
    monkeypatch.chdir(place.shared)
    with pytest.raises(
        KfrecError, match=r"^Dask worker tcp://.*: does not see /proc/self/cwd/.*/check/step .*one volume"
    ):
        place.preprocess("there", shared_folder="/proc/self/cwd")
    assert place.nothing_left()


@pytest.mark.parametrize("missing", ["shared_folder", "shared_volume"])
def test_a_cluster_needs_a_shared_folder(place: Place, missing: str) -> None:
    empty: dict[str, Any] = {"shared_folder": "", "shared_volume": {}}
    with pytest.raises(KfrecError, match="name shared_folder and shared_volume"):
        place.preprocess("there", **{missing: empty[missing]})


def test_a_shared_folder_that_is_not_mounted_is_named(place: Place) -> None:
    with pytest.raises(KfrecError, match=r"shared_folder /nowhere: cannot be written \(No such file"):
        place.preprocess("there", shared_folder="/nowhere")


def test_what_a_killed_step_left_in_the_shared_folder_is_removed_after_a_week(place: Place) -> None:
    place.api.forbidden = {"POST"}
    for name, days in (("kfrec-preprocess-old", 8), ("kfrec-preprocess-new", 1), ("others", 99)):
        (place.shared / name).mkdir()
        ago = time.time() - days * 86_400
        os.utime(place.shared / name, (ago, ago))
    with pytest.raises(KfrecError):
        place.preprocess("there")
    assert sorted(path.name for path in place.shared.iterdir()) == ["kfrec-preprocess-new", "others"]


@pytest.mark.slow
def test_workers_and_a_scheduler_that_end_at_their_work_are_one_line(place: Place) -> None:
    environment = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    settings = DaskSettings(**yaml.safe_load(place.settings(environment=environment).read_text()))
    with (
        pytest.raises(
            WorkerCrashed, match=r"^the Dask scheduler has ended, .*; .*-worker-.* ended: Error, exit code 3"
        ),
        running.running_cluster(1, settings) as address,
    ):
        with (
            pytest.raises(
                WorkerCrashed,
                match=r"^1 Dask workers ended at the same task, probably killed for too little memory; give",
            ),
            dask_workers(1, address, 1) as workers,
        ):
            list(workers.run([delayed(os._exit)(3)]))
        with dask_workers(1, address, 1) as workers:
            threading.Timer(0.5, lambda: place.operator.kill(place.operator.scheduler())).start()
            list(workers.run([delayed(time.sleep)(UNTIL_ENDED)]))
    assert place.api.live_jobs() == []


def test_the_settings_file_is_read_only_where_something_asks_for_it(place: Place) -> None:
    bad = place.folder / "bad.yaml"
    bad.write_text("shared_foldr: /x\n")
    preprocess(place.raw, place.folder / "here", dask_settings=str(bad))
    with pytest.raises(KfrecError, match="did you mean shared_folder"):
        preprocess(place.raw, place.folder / "there", dask_settings=str(bad), dask_workers=1)


def test_one_cluster_is_enough(place: Place) -> None:
    with pytest.raises(KfrecError, match=r"dask_workers=2 .* scheduler=tcp://x:1 names one; give one of them"):
        preprocess(place.raw, place.folder / "there", dask_workers=2, scheduler="tcp://x:1")
