"""The train step's way with an MPIJob, against an API that really runs launchers, and with all that goes wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from components.errors import KfrecError
from components.train.mpijob import cluster
from components.train.mpijob.job import Owner
from tests.train.mpijob.conftest import NAME, Place

Make = Callable[..., Place]


def python(code: str) -> Callable[[int], list[str]]:
    """A launcher that runs this code; ``tries`` is the number of earlier launchers."""
    return lambda tries: [sys.executable, "-u", "-c", f"import sys, time; tries = {tries}\n{code}"]


def slowly(seconds: float) -> Callable[[int], list[str]]:
    return python(f"time.sleep({seconds})\nprint('[1,0]<stdout>:trained')")


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < until, "waited 15 s in vain"
        time.sleep(0.02)


def in_background(job: Callable[[], object]) -> Callable[[], BaseException | None]:
    """Starts a job; the function it returns waits for its end and gives what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            job()
        except BaseException as error:  # handed to the test
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join() -> BaseException | None:
        thread.join(30)
        assert not thread.is_alive()
        return raised[0] if raised else None

    return join


def test_a_job_runs_and_its_first_rank_is_heard(place: Make) -> None:
    here = place(python("print('[1,0]<stdout>:hello'); print('[1,1]<stdout>:me too')"))
    assert here.run() == "[0] hello\n[1] me too\n"
    assert here.told == [f"created MPIJob {NAME} in namespace kubeflow"]
    assert here.operator.tries == 1


def test_a_worker_that_reports_bad_input_is_the_error(place: Make) -> None:
    event = '{"kfrec": "error", "step": "train", "message": "/data/x: broken; repair it"}'
    here = place(python(f"print('[1,0]<stdout>:' + {event!r}); sys.exit(2)"))
    with pytest.raises(KfrecError, match=r"^/data/x: broken; repair it$"):
        here.run(restarts=0)


def test_only_the_verbs_of_the_role_are_used(place: Make) -> None:
    here = place(slowly(1.5))
    here.run()
    kinds = {
        (method, path.split("/")[-1] if "mpijobs" not in path else "mpijobs") for method, path in here.api.requests
    }
    assert kinds <= {("POST", "mpijobs"), ("GET", "mpijobs"), ("GET", "pods"), ("GET", "events"), ("GET", "log")}


# The faults of the cluster path, one test each.


def test_a_step_killed_and_tried_again_follows_the_job_that_runs(place: Make) -> None:
    here = place(slowly(2))
    first = here.launcher(owner=Owner("step-1", "uid-1"))
    in_background(lambda: first.run(2, ["--lr=0.5"], here.folder / "first.log"))
    wait_for(lambda: here.operator.tries)
    # The first step is left to itself, as if its node were gone; the second try is another pod.
    here.launcher(owner=Owner("step-2", "uid-2")).run(2, ["--lr=0.5"], here.folder / "second.log")
    assert (here.folder / "second.log").read_text() == "[0] trained\n"
    assert here.operator.tries == 1
    assert f"found MPIJob {NAME} of an earlier try; following it" in here.told
    owners = [owner["uid"] for owner in here.api.jobs[NAME]["metadata"]["ownerReferences"]]
    assert owners == ["uid-1", "uid-2"]


def test_a_step_that_finds_its_job_failed_starts_it_again(place: Make) -> None:
    here = place(lambda tries: python("sys.exit(1)" if tries == 0 else "print('[1,0]<stdout>:trained')")(tries))
    with pytest.raises(KfrecError):
        here.run(restarts=0)
    assert here.run(restarts=0) == "[0] trained\n"


def test_a_step_asked_to_stop_deletes_its_job(place: Make) -> None:
    here = place(slowly(30))
    program = """
import sys
from pathlib import Path
from components.steps.catalog import LaunchParameters
from components.train.mpijob.launcher import in_cluster
in_cluster(LaunchParameters(workers=2, launcher="mpijob", run_id="r", model_uri="m")).run(2, [], Path(sys.argv[1]))
"""
    step = subprocess.Popen([sys.executable, "-c", program, str(here.folder / "log")], stdout=subprocess.DEVNULL)
    wait_for(lambda: here.operator.tries)
    step.send_signal(signal.SIGTERM)
    assert step.wait(20) == 143
    assert here.api.jobs == {}


def test_an_api_server_that_is_away_for_a_while_is_waited_for(place: Make) -> None:
    here = place(slowly(3))
    joined = in_background(here.run)
    wait_for(lambda: here.operator.tries)
    here.api.down.set()
    time.sleep(2.5)
    here.api.down.clear()
    assert joined() is None
    assert any("waiting for it" in line for line in here.told) and "the Kubernetes API answers again" in here.told
    assert (here.folder / "worker.log").read_text() == "[0] trained\n"


def test_an_api_server_may_be_away_for_half_a_minute(place: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    faster = 10  # the client's clock
    clock = SimpleNamespace(monotonic=lambda: faster * time.monotonic(), sleep=lambda wait: time.sleep(wait / faster))
    monkeypatch.setattr(cluster, "time", clock)
    here = place(slowly(3.1))
    launcher = here.launcher()
    launcher._cluster.patience = type(launcher._cluster.patience)()  # as in production
    joined = in_background(lambda: launcher.run(2, [], here.folder / "worker.log"))
    wait_for(lambda: here.operator.tries)
    here.api.down.set()
    time.sleep(30 / faster)
    here.api.down.clear()
    assert joined() is None
    assert (here.folder / "worker.log").read_text() == "[0] trained\n"


def test_an_api_server_that_stays_away_is_given_up_in_one_line(place: Make) -> None:
    here = place(slowly(30))
    launcher = here.launcher()
    launcher._cluster.patience = type(launcher._cluster.patience)(longest=0.5, first_wait=0.05)
    joined = in_background(lambda: launcher.run(2, [], here.folder / "log"))
    wait_for(lambda: here.operator.tries)
    here.api.down.set()
    error = joined()
    assert isinstance(error, KfrecError) and "run the step again to find it" in str(error)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_api_server_is_asked_again(place: Make, status: int) -> None:
    here = place(python("print('[1,0]<stdout>:trained')"))
    here.api.answers = [status, status]
    assert here.run() == "[0] trained\n"


def test_an_expired_watch_starts_over_from_the_job_as_it_is(place: Make) -> None:
    here = place(slowly(2))
    here.api.forget_before = 10**9
    assert here.run() == "[0] trained\n"


def test_a_dropped_log_goes_on_without_losing_or_repeating_a_line(place: Make) -> None:
    lines = "\n".join(f"print('[1,0]<stdout>:line {n}'); time.sleep(0.02)" for n in range(40))
    here = place(python(lines))
    here.api.drop_after = [5, 0, 17]
    assert here.run() == "".join(f"[0] line {n}\n" for n in range(40))
    assert here.api.drop_after == []


def test_a_job_deleted_by_someone_else_is_told(place: Make) -> None:
    here = place(slowly(30))
    joined = in_background(here.run)
    wait_for(lambda: here.operator.tries)
    here.api.delete_job(NAME)
    error = joined()
    assert isinstance(error, KfrecError) and f"MPIJob {NAME} was deleted by someone else" in str(error)


def test_an_evicted_worker_is_the_reason(place: Make) -> None:
    here = place(slowly(30))
    joined = in_background(here.run)
    wait_for(lambda: here.operator.tries)
    here.operator.evict(f"{NAME}-worker-1", "The node was low on resource: memory.")
    error = joined()
    assert isinstance(error, KfrecError)
    assert f"{NAME}-worker-1: Evicted: The node was low on resource: memory." in str(error)
    assert "\n" not in str(error)
    # The operator gives such a job no time of completion and leaves its pods; they would keep their GPUs.
    assert here.api.jobs == {}


def test_a_suspended_job_is_told_and_goes_on_when_it_is_resumed(place: Make) -> None:
    here = place(python("print('[1,0]<stdout>:trained')"))
    here.operator.suspend.set()
    joined = in_background(lambda: here.run(deadline=1))
    wait_for(lambda: any("is suspended" in line for line in here.told))
    time.sleep(2.5)  # longer than the deadline, which does not count while the job waits
    here.operator.suspend.clear()
    assert joined() is None
    assert (here.folder / "worker.log").read_text() == "[0] trained\n"


def test_a_launcher_that_fails_once_is_started_again_and_both_are_heard(place: Make) -> None:
    here = place(python("print(f'[1,0]<stdout>:try {tries}'); time.sleep(0.3); sys.exit(1 - tries)"))
    assert here.run(restarts=1) == "[0] try 0\n[0] try 1\n"
    assert here.operator.tries == 2


def test_the_error_of_an_earlier_launcher_is_not_told_of_a_later_one(place: Make) -> None:
    event = '{"kfrec": "error", "step": "train", "message": "first"}'
    code = f"print('[1,0]<stdout>:' + {event!r}) if tries == 0 else None; time.sleep(0.3); sys.exit(7)"
    here = place(python(code))
    with pytest.raises(KfrecError, match="exit code 7"):
        here.run(restarts=1)


def test_a_launcher_that_keeps_failing_is_told_with_its_exit_code_and_last_words(place: Make) -> None:
    here = place(python("print('[1,0]<stderr>:out of luck'); sys.exit(7)"))
    with pytest.raises(KfrecError) as error:
        here.run(restarts=1)
    assert "BackoffLimitExceeded" in str(error.value) and "exit code 7" in str(error.value)
    assert "\n" not in str(error.value)
    assert any("out of luck" in line for line in here.told)


def test_a_quota_that_refuses_the_job_is_told_and_waited_for(place: Make) -> None:
    here = place(python("print('[1,0]<stdout>:trained')"))
    here.api.quota = "exceeded quota: gpus, requested: requests.nvidia.com/gpu=2"
    joined = in_background(here.run)
    wait_for(lambda: any("over its quota" in line for line in here.told))
    here.api.quota = ""
    assert joined() is None
    assert sum("over its quota" in line for line in here.told) == 1


def test_a_quota_that_refuses_pods_is_told(place: Make) -> None:
    here = place(python("print('[1,0]<stdout>:trained')"))
    here.operator.pod_quota = "exceeded quota: memory"
    joined = in_background(here.run)
    wait_for(lambda: any("pods cannot be created" in line and "exceeded quota" in line for line in here.told))
    here.operator.pod_quota = ""
    assert joined() is None


def test_a_job_without_a_node_is_told(place: Make) -> None:
    here = place(python("print('[1,0]<stdout>:trained')"))
    here.operator.unschedulable = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    joined = in_background(here.run)
    told = f"{NAME}-worker-0 has no node: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    wait_for(lambda: told in here.told)
    here.operator.unschedulable = ""
    assert joined() is None


def test_a_wrong_image_ends_the_job_in_one_line(place: Make) -> None:
    here = place(slowly(30))
    here.operator.image_trouble = 'Back-off pulling image "kfrec-train:none"'
    with pytest.raises(KfrecError) as error:
        here.run()
    assert "its image cannot be had (kfrec-train:none ImagePullBackOff" in str(error.value)
    assert "\n" not in str(error.value)
    assert here.api.jobs == {}


def test_a_deadline_ends_the_job(place: Make) -> None:
    here = place(slowly(30))
    with pytest.raises(KfrecError, match="DeadlineExceeded"):
        here.run(deadline=1)


def test_a_deadline_that_the_operator_does_not_enforce_is_enforced_here(place: Make) -> None:
    here = place(slowly(30))
    here.operator.unschedulable = "no node"
    with pytest.raises(KfrecError, match="not done after the deadline of 1 s; raise deadline; the job was deleted"):
        here.run(deadline=1)
    assert here.api.jobs == {}


def test_a_foreign_job_of_the_same_name_stays(place: Make) -> None:
    here = place(slowly(30))
    container = {"command": ["true"], "env": [], "image": "x"}
    replicas = {"Worker": {"replicas": 0}, "Launcher": {"template": {"spec": {"containers": [container]}}}}
    policy = {"activeDeadlineSeconds": 1, "backoffLimit": 0}
    foreign = {"name": NAME, "annotations": {"kfrec.io/spec-digest": "other"}}
    here.api.create_job({"metadata": foreign, "spec": {"runPolicy": policy, "mpiReplicaSpecs": replicas}})
    with pytest.raises(KfrecError, match="exists with another specification; delete it"):
        here.run()
    assert NAME in here.api.jobs


def test_no_cluster_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from components.train.mpijob.cluster import connect

    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(KfrecError, match="launcher=mpijob needs a cluster, and there is none"):
        connect()
