from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from components.cluster.api import Patience, connect
from components.cluster.owner import Owner
from components.steps.catalog import LaunchParameters
from components.train.mpijob.job import KIND, mpijob
from components.train.mpijob.launcher import MpiJobLauncher
from components.train.mpijob.settings import JobSettings
from components.train.mpijob.watcher import Pace
from tests.fakes.kubernetes_api import NAMESPACE, KubernetesApi, write_kubeconfig
from tests.fakes.mpi_operator import MpiOperator

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

    def launcher(self, owner: Owner | None = None, **changed: Any) -> MpiJobLauncher:
        pace = Pace(look=1, image=0.5, grace=1, quota=0.1, ending=10, parting=1)
        cluster = connect(KIND, patience=Patience(longest=20, first_wait=0.05, longest_wait=0.2), echo=self.told.append)
        parameters = LaunchParameters(**{"workers": 2, "launcher": "mpijob", "restarts": 0, **changed})
        return MpiJobLauncher(cluster, TRAINING, parameters, self.settings, owner, pace, self.told.append)

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

        def make(program: Callable[[int], Sequence[str]] | None) -> Place:
            api = KubernetesApi()
            url = stack.enter_context(api.served())
            monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", url)))
            operator = stack.enter_context(MpiOperator(api, tmp_path / "stage", program))
            return Place(api, tmp_path, operator)

        yield make
