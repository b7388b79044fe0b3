from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.cluster.api import connect
from components.cluster.pods import Owner
from components.steps.catalog import LaunchParameters
from components.storage import Retry
from components.train.jobs import watcher
from components.train.jobs.launcher import JobLauncher
from components.train.jobs.watcher import Pace
from components.train.mpijob.job import KIND, launcher, mpijob
from components.train.mpijob.settings import JobSettings
from tests.fakes.kubernetes_api import NAMESPACE, KubernetesApi, write_kubeconfig
from tests.fakes.mpi_operator import MpiOperator
from tests.waiting import LONGEST, wait_for

TRAINING = "kfrec-train-test"
NAME = f"{TRAINING}-1"  # of its first job


@dataclass
class Place:
    """A cluster and what was told of it."""

    api: KubernetesApi
    folder: Path
    operator: MpiOperator
    told: list[str] = field(default_factory=list)
    settings: JobSettings = field(default_factory=JobSettings)
    pace: Pace = field(default_factory=lambda: Pace(1, image=0.5, grace=LONGEST, quota=0.1, ending=LONGEST, parting=1))

    def launcher(self, owner: Owner | None = None, **changed: Any) -> JobLauncher:
        retry = Retry(math.inf, first_wait=0.05, longest_wait=0.2, seconds=LONGEST)
        cluster = connect(KIND, retry=retry, echo=self.told.append)
        parameters = LaunchParameters(**{"workers": 2, "launcher": "mpijob", "restarts": 0, **changed})
        return launcher(cluster, TRAINING, parameters, self.settings, owner, self.pace, self.told.append)

    def wait_for_a_look(self) -> None:
        """Waits until the step has looked at the job and at its pods and their events, if there are any."""
        before = len(self.api.requests)
        watched = lambda: sum(path.endswith("/mpijobs") for _, path in self.api.requests[before:])  # noqa: E731
        wait_for(lambda: watched() >= 2)

    def left_behind(self) -> None:
        """A job that a step created whose machine is gone."""
        parameters = LaunchParameters(workers=2, launcher="mpijob", restarts=0)
        self.api.create_job(mpijob(TRAINING, 1, NAMESPACE, parameters, JobSettings(), ["--lr=0.5"]))

    def run(self, **changed: Any) -> str:
        """Runs a job to its end and returns what its ranks said."""
        log = self.folder / "worker.log"
        self.launcher(**changed).run(2, ["--lr=0.5"], log)
        return log.read_text()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Place]]:
    """Makes a cluster whose launchers run the given program."""
    with ExitStack() as stack:

        def make(program: Callable[[int], Sequence[str]]) -> Place:
            api = KubernetesApi()
            url = stack.enter_context(api.served())
            monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", url)))
            operator = stack.enter_context(MpiOperator(api, tmp_path / "stage", program))
            return Place(api, tmp_path, operator)

        yield make


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[Place, float], None]:
    """Lets seconds pass on the step's clock, which it has looked at before and looks at afterwards."""
    passed = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0], sleep=time.sleep)
    monkeypatch.setattr(watcher, "time", clock)

    def wait(here: Place, seconds: float) -> None:
        here.wait_for_a_look()
        passed[0] += seconds
        here.wait_for_a_look()

    return wait
