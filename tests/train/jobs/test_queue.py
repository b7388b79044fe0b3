"""A training in a queue of Kueue: it waits for as long as it takes, and an admission may be taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from components.errors import KfrecError
from components.train.mpijob.settings import JobSettings
from tests.fakes.kueue import FLAVOR, Kueue
from tests.train.jobs.conftest import NAME, TRAINING, Place
from tests.train.jobs.test_launcher import Make, in_background, python
from tests.waiting import wait_for

pytestmark = pytest.mark.slow
SECOND = f"{TRAINING}-2"


def queued(here: Place) -> Kueue:
    here.settings = JobSettings(queue="kfrec")
    return Kueue(here.api)


def is_queued(here: Place, name: str) -> bool:
    """Whether the operator has seen the job suspended; one that is admitted earlier starts as if it never waited."""
    conditions = here.api.jobs.get(name, {}).get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Suspended", "True") for each in conditions)


def changed_by_the_step(here: Place) -> set[str]:
    return {method for method, _ in here.api.requests} & {"PATCH", "PUT"}


def test_a_job_waits_in_the_queue_beyond_its_deadline_and_runs_when_it_is_admitted(
    place: Make, pass_time: Callable[[Place, float], None]
) -> None:
    here = place(python("print('[1,0]<stdout>:trained')"))
    kueue = queued(here)
    joined = in_background(lambda: here.run(deadline=1000))
    wait_for(lambda: f"MPIJob {NAME} is suspended, waiting in queue kfrec" in here.told)
    pass_time(here, 2000)
    assert here.operator.tries == 0 and here.api.pods == {}
    kueue.admit(NAME)
    assert joined() is None
    assert (here.folder / "worker.log").read_text() == "[0] trained\n"
    assert here.api.live_jobs() == [NAME] and not changed_by_the_step(here)
    worker = here.api.jobs[NAME]["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert FLAVOR.items() <= worker["nodeSelector"].items()


def test_a_job_that_loses_its_place_and_gets_it_back_at_once_goes_on_as_the_same_job(place: Make) -> None:
    """Without a restart, of which there is none here: its workers were deleted by the operator, not lost."""
    here = place(python("print(f'[1,0]<stdout>:try {tries}'); time.sleep((3600, 1)[tries])"))
    kueue = queued(here)
    here.operator.ssh_delay = 0.5  # the resumed launcher does not wait for the workers by itself
    joined = in_background(lambda: here.run(restarts=0))
    wait_for(lambda: is_queued(here, NAME))
    kueue.admit(NAME)
    wait_for(lambda: any("try 0" in line for lines in list(here.api.logs.values()) for line in lines))
    here.wait_for_a_look()  # and the step has seen the workers
    kueue.evict(NAME)
    wait_for(lambda: not here.api.pods)
    kueue.admit(NAME)
    assert joined() is None
    assert (here.folder / "worker.log").read_text() == "[0] try 0\n[0] try 1\n"
    assert here.api.live_jobs() == [NAME] and not changed_by_the_step(here)


def test_workers_that_start_too_late_after_the_queue_cost_no_restart(place: Make) -> None:
    """The launcher starts together with them and waits, as long as ssh_seconds allows."""
    here = place(python("print('[1,0]<stdout>:trained')"))
    kueue = queued(here)
    here.settings = replace(here.settings, ssh_seconds=1)
    here.operator.unschedulable = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    joined = in_background(lambda: here.run(restarts=0))
    wait_for(lambda: is_queued(here, NAME))
    kueue.admit(NAME)
    wait_for(lambda: is_queued(here, SECOND))
    assert any("its workers did not start in time, which costs no restart" in line for line in here.told)
    here.operator.unschedulable = ""
    kueue.admit(SECOND)
    assert joined() is None
    assert (here.folder / "worker.log").read_text().endswith("[0] trained\n")


def test_a_step_that_ends_in_the_queue_takes_its_job_along(place: Make) -> None:
    here = place(python("print('[1,0]<stdout>:trained')"))
    queued(here)
    joined = in_background(here.run)
    wait_for(lambda: here.told)
    here.api.delete_job(NAME)
    assert isinstance(joined(), KfrecError)
    assert here.operator.tries == 0 and here.api.live_jobs() == []
