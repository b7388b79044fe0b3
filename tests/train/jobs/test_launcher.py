"""The train step's way with an MPIJob, against an API that really runs launchers, and with all that goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from components.cluster import api
from components.cluster.pods import Owner
from components.errors import KfrecError
from components.lifetime import VARIABLE, start_time
from components.storage import retry
from components.train.jobs.kind import JobKind
from components.train.mpijob.job import KIND
from components.train.mpijob.settings import JobSettings
from components.train.worker import BAD_INPUT
from tests.fakes.end_of_a_run import kill_soon
from tests.fakes.kubernetes_api import now
from tests.train.jobs.conftest import NAME, TRAINING, Place
from tests.waiting import LONGEST, UNTIL_ENDED, wait_for

pytestmark = pytest.mark.slow
Make = Callable[..., Place]


def python(code: str) -> Callable[[int], list[str]]:
    """A launcher that runs this code; ``tries`` is the number of earlier launchers."""
    return lambda tries: [sys.executable, "-u", "-c", f"import sys, time; tries = {tries}\n{code}"]


def slowly(seconds: float) -> Callable[[int], list[str]]:
    return python(f"time.sleep({seconds})\nprint('[1,0]<stdout>:trained')")


def until(event: Path) -> Callable[[int], list[str]]:
    """A launcher that ends its training when this file exists."""
    waiting = f"import os\nwhile not os.path.exists({str(event)!r}): time.sleep(0.02)"
    return python(f"{waiting}\nprint('[1,0]<stdout>:trained')")


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
        thread.join(LONGEST)
        assert not thread.is_alive()
        return raised[0] if raised else None

    return join


def test_a_job_runs_and_its_first_rank_is_heard(place: Make) -> None:
    here = place(python("print('[1,0]<stdout>:hello'); print('[1,1]<stdout>:me too')"))
    assert here.run() == "[0] hello\n[1] me too\n"
    assert here.told == [f"created MPIJob {NAME} in namespace kubeflow"]
    assert here.operator.tries == 1


def test_only_the_verbs_of_the_role_are_used(place: Make) -> None:
    here = place(slowly(1.5))
    here.run()
    kinds = {
        (method, path.split("/")[-1] if "mpijobs" not in path else "mpijobs") for method, path in here.api.requests
    }
    assert kinds <= {("POST", "mpijobs"), ("GET", "mpijobs"), ("GET", "pods"), ("GET", "events"), ("GET", "log")}


# The faults of the cluster path, one test each.


def test_a_step_killed_and_tried_again_follows_the_job_that_runs(place: Make, tmp_path: Path) -> None:
    here = place(until(tmp_path / "trained"))
    first = here.launcher(owner=Owner("step-1", "uid-1"))
    in_background(lambda: first.run(2, ["--lr=0.5"], here.folder / "first.log"))
    wait_for(lambda: here.operator.tries)
    # The first step is left to itself, as if its node were gone; the second try is another pod.
    second = here.launcher(owner=Owner("step-2", "uid-2"))
    joined = in_background(lambda: second.run(2, ["--lr=0.5"], here.folder / "second.log"))
    wait_for(lambda: f"found MPIJob {NAME} of an earlier try; following it" in here.told)
    (tmp_path / "trained").touch()
    assert joined() is None
    assert (here.folder / "second.log").read_text() == "[0] trained\n"
    assert here.operator.tries == 1
    owners = [owner["uid"] for owner in here.api.jobs[NAME]["metadata"]["ownerReferences"]]
    assert owners == ["uid-1", "uid-2"]


def test_a_step_that_finds_its_job_failed_starts_it_again(place: Make) -> None:
    here = place(lambda tries: python("sys.exit(1)" if tries == 0 else "print('[1,0]<stdout>:trained')")(tries))
    here.left_behind()
    wait_for(lambda: "completionTime" in here.api.jobs[NAME].get("status", {}))
    assert here.run() == "[0] trained\n"
    assert here.api.live_jobs() == [f"{TRAINING}-2"]


def test_a_step_asked_to_stop_deletes_its_job(place: Make) -> None:
    here = place(slowly(UNTIL_ENDED))
    program = """
import sys
from pathlib import Path
from components.steps.catalog import LaunchParameters
from components.train.mpijob.job import in_cluster
in_cluster(LaunchParameters(workers=2, launcher="mpijob", run_id="r", model_uri="m")).run(2, [], Path(sys.argv[1]))
"""
    step = subprocess.Popen([sys.executable, "-c", program, str(here.folder / "log")], stdout=subprocess.DEVNULL)
    wait_for(lambda: here.operator.tries)
    step.send_signal(signal.SIGTERM)
    assert step.wait(LONGEST) == 143
    assert here.api.live_jobs() == []


def test_a_step_deletes_its_job_in_the_half_second_that_the_end_of_a_run_leaves(place: Make) -> None:
    here = place(slowly(UNTIL_ENDED))
    program = """
import sys
from pathlib import Path
from components.lifetime import end_with_parent
from components.steps.catalog import LaunchParameters
from components.train.mpijob.job import in_cluster
end_with_parent()
in_cluster(LaunchParameters(workers=2, launcher="mpijob", run_id="r", model_uri="m")).run(2, [], Path(sys.argv[1]))
"""
    # SIGTERM reaches KFP's launcher, which ends at once; the container, and the step in it, are killed soon after.
    kfp = subprocess.Popen(["sleep", str(UNTIL_ENDED)])
    environment = os.environ | {VARIABLE: f"{kfp.pid}:{start_time(kfp.pid)}"}
    step = subprocess.Popen([sys.executable, "-c", program, str(here.folder / "log")], env=environment)
    wait_for(lambda: here.operator.tries)
    here.wait_for_a_look()
    kfp.terminate()
    kfp.wait()
    kill_soon(step)
    assert here.api.live_jobs() == []


def test_a_step_killed_without_time_leaves_a_job_that_goes_with_its_workflow(place: Make) -> None:
    """Kubernetes deletes an object with its last owner; none of them blocks that."""
    here = place(slowly(UNTIL_ENDED))
    program = """
import sys
from pathlib import Path
from components.cluster.pods import Owner
from components.steps.catalog import LaunchParameters
from components.cluster.api import connect
from components.train.mpijob.job import KIND, launcher
from components.train.mpijob.settings import JobSettings
parameters = LaunchParameters(workers=2, launcher="mpijob")
owner = Owner("run-1", "uid-of-the-workflow")
launcher(connect(KIND), "kfrec-train-test", parameters, JobSettings(), owner).run(2, [], Path(sys.argv[1]))
"""
    step = subprocess.Popen([sys.executable, "-c", program, str(here.folder / "log")], stdout=subprocess.DEVNULL)
    wait_for(lambda: here.operator.tries)
    step.kill()
    step.wait(LONGEST)
    assert here.api.live_jobs() == [NAME]
    (owner,) = here.api.jobs[NAME]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Workflow", "run-1", "uid-of-the-workflow")


def test_an_api_server_that_is_away_for_a_while_is_waited_for(place: Make) -> None:
    here = place(slowly(1))
    joined = in_background(here.run)
    wait_for(lambda: here.operator.tries)
    here.api.down.set()
    wait_for(lambda: any("waiting for it" in line for line in here.told))
    here.api.down.clear()
    assert joined() is None
    assert "the Kubernetes API answers again" in here.told
    assert (here.folder / "worker.log").read_text() == "[0] trained\n"


def test_an_api_server_may_be_away_for_half_a_minute(place: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    faster = 10  # the client's clock
    clock = SimpleNamespace(monotonic=lambda: faster * time.monotonic())
    for module in (api, retry):
        monkeypatch.setattr(module, "time", clock)
    here = place(slowly(3.1))
    launcher = here.launcher()
    launcher._cluster.retry = replace(api.RETRY, sleep=lambda wait: time.sleep(wait / faster))
    joined = in_background(lambda: launcher.run(2, [], here.folder / "worker.log"))
    wait_for(lambda: here.operator.tries)
    here.api.down.set()
    time.sleep(30 / faster)
    here.api.down.clear()
    assert joined() is None
    assert (here.folder / "worker.log").read_text() == "[0] trained\n"


def test_an_api_server_that_has_not_read_the_roles_yet_is_asked_again(place: Make, tmp_path: Path) -> None:
    here = place(until(tmp_path / "event"))
    joined = in_background(here.run)
    wait_for(lambda: here.operator.tries)
    here.wait_for_a_look()
    here.api.forbidden = {"mpijobs"}
    wait_for(lambda: any("forbids what it allowed before" in line for line in here.told))
    here.api.forbidden = set()
    (tmp_path / "event").touch()
    assert joined() is None
    assert (here.folder / "worker.log").read_text() == "[0] trained\n"


def test_rights_that_are_taken_away_end_the_step(place: Make) -> None:
    here = place(slowly(UNTIL_ENDED))
    launcher = here.launcher()
    launcher._cluster.rights_seconds = 0.5
    joined = in_background(lambda: launcher.run(2, [], here.folder / "log"))
    wait_for(lambda: here.operator.tries)
    here.wait_for_a_look()
    here.api.forbidden = {"mpijobs"}
    error = joined()
    assert isinstance(error, KfrecError) and "the service account may not do this" in str(error)


def test_an_api_server_that_stays_away_is_given_up_in_one_line(place: Make) -> None:
    here = place(slowly(UNTIL_ENDED))
    launcher = here.launcher()
    launcher._cluster.retry = replace(launcher._cluster.retry, seconds=0.5)
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
    here = place(slowly(UNTIL_ENDED))
    joined = in_background(here.run)
    wait_for(lambda: here.operator.tries)
    here.api.delete_job(NAME)
    error = joined()
    assert isinstance(error, KfrecError) and f"MPIJob {NAME} was deleted by someone else" in str(error)


def test_an_evicted_worker_is_the_reason(place: Make) -> None:
    here = place(slowly(UNTIL_ENDED))
    joined = in_background(here.run)
    wait_for(lambda: here.operator.tries)
    here.operator.lose(f"{NAME}-worker-1", "Evicted", "The node was low on resource: memory.")
    error = joined()
    assert isinstance(error, KfrecError)
    assert f"{NAME}-worker-1: Evicted: The node was low on resource: memory." in str(error)
    assert "\n" not in str(error)
    # The operator gives such a job no time of completion and leaves its pods; they would keep their GPUs.
    assert here.api.live_jobs() == []


def test_a_job_that_fails_once_is_created_again_and_both_are_heard(place: Make) -> None:
    here = place(python("print(f'[1,0]<stdout>:try {tries}'); time.sleep(0.3); sys.exit(1 - tries)"))
    assert here.run(restarts=1) == "[0] try 0\n[0] try 1\n"
    assert here.api.live_jobs() == [f"{TRAINING}-2"]


def test_an_error_that_a_worker_tells_ends_the_step_without_another_job(place: Make) -> None:
    event = '{"kfrec": "error", "step": "train", "message": "the loss is not finite"}'
    here = place(python(f"print('[1,0]<stdout>:' + {event!r}); sys.exit(2)"))
    with pytest.raises(KfrecError, match=r"^the loss is not finite$"):
        here.run(restarts=2)
    assert here.operator.tries == 1 and here.api.live_jobs() == []


def test_the_status_of_bad_input_ends_the_step_without_another_job_where_logs_may_not_be_read(place: Make) -> None:
    here = place(python(f"sys.exit({BAD_INPUT})"))
    here.api.forbidden = {"log"}
    with pytest.raises(KfrecError, match="invalid input"):
        here.run(restarts=2)
    assert here.operator.tries == 1 and here.api.live_jobs() == []


@pytest.mark.parametrize("hangs", [False, True], ids=["mpirun notices", "mpirun hangs"])
def test_a_worker_that_is_lost_is_survived_by_another_job(place: Make, hangs: bool) -> None:
    here = place(lambda tries: (slowly(UNTIL_ENDED) if tries == 0 else slowly(0.1))(tries))
    joined = in_background(lambda: here.run(restarts=1))
    wait_for(lambda: here.operator.tries)
    here.operator.lose(f"{NAME}-worker-1", "Terminated", "Pod was terminated: node shutdown", hangs=hangs)
    assert joined() is None
    assert (here.folder / "worker.log").read_text() == "[0] trained\n"
    assert here.api.live_jobs() == [f"{TRAINING}-2"]
    told = [line for line in here.told if "restart 1 of 1 resumes from the newest checkpoint" in line]
    assert len(told) == 1 and f"{NAME}-worker-1: Terminated: Pod was terminated: node shutdown" in told[0]


def test_a_worker_that_was_drained_and_replaced_is_lost_to_its_job(place: Make) -> None:
    here = place(lambda tries: (slowly(UNTIL_ENDED) if tries == 0 else slowly(0.1))(tries))
    joined = in_background(lambda: here.run(restarts=1))
    wait_for(lambda: here.operator.tries)
    here.wait_for_a_look()  # and the workers have been seen
    here.operator.drain(f"{NAME}-worker-0")
    assert joined() is None
    assert here.api.live_jobs() == [f"{TRAINING}-2"]


def test_a_worker_that_fails_before_there_is_a_launcher_is_survived(place: Make) -> None:
    here = place(slowly(0.1))
    here.operator.unschedulable = "no node"
    joined = in_background(lambda: here.run(restarts=1))
    wait_for(lambda: f"{NAME}-worker-1" in here.api.pods)
    here.operator.dead = {f"{NAME}-worker-1"}
    here.operator.unschedulable = ""
    assert joined() is None
    assert here.operator.tries == 1 and here.api.live_jobs() == [f"{TRAINING}-2"]


def test_the_next_job_waits_until_the_pods_of_the_last_one_have_ended(place: Make) -> None:
    here = place(lambda tries: (slowly(UNTIL_ENDED) if tries == 0 else slowly(0.1))(tries))
    here.api.termination = 1.5
    joined = in_background(lambda: here.run(restarts=1))
    wait_for(lambda: here.operator.tries)
    here.operator.lose(f"{NAME}-worker-1", "Terminated")
    wait_for(lambda: f"{TRAINING}-2" in here.api.jobs)
    assert NAME not in here.api.jobs and not any(pod.startswith(NAME) for pod in here.api.pods)
    assert joined() is None


def test_a_job_that_keeps_losing_workers_is_given_up_after_its_restarts(place: Make) -> None:
    here = place(python("time.sleep(0.2); sys.exit(255)"))
    with pytest.raises(KfrecError, match="3 jobs have failed, raise restarts for more"):
        here.run(restarts=2)
    assert here.operator.tries == 3 and here.api.live_jobs() == []


def test_no_job_is_created_after_the_deadline(place: Make, pass_time: Callable[[Place, float], None]) -> None:
    here = place(slowly(UNTIL_ENDED))
    here.operator.enforces_deadlines = False
    here.pace = replace(here.pace, grace=1e9)
    joined = in_background(lambda: here.run(restarts=5, deadline=1000))
    wait_for(lambda: here.operator.tries)
    pass_time(here, 2000)
    here.operator.lose(f"{NAME}-worker-0", "Terminated")
    error = joined()
    assert isinstance(error, KfrecError) and "nothing is left of the deadline of 1000 s; raise deadline" in str(error)
    assert here.operator.tries == 1 and here.api.live_jobs() == []


def test_two_processes_of_one_step_share_each_job(place: Make) -> None:
    here = place(lambda tries: (slowly(UNTIL_ENDED) if tries == 0 else slowly(3))(tries))
    one, other = (here.launcher(restarts=1) for _ in range(2))
    run = [
        in_background(lambda: one.run(2, ["--lr=0.5"], here.folder / "0.log")),
        in_background(lambda: other.run(2, ["--lr=0.5"], here.folder / "1.log")),
    ]
    wait_for(lambda: here.operator.tries and any("found MPIJob" in line for line in here.told))
    here.operator.lose(f"{NAME}-worker-1", "Terminated")
    assert [joined() for joined in run] == [None, None]
    assert here.operator.tries == 2 and here.api.live_jobs() == [f"{TRAINING}-2"]


def test_a_launcher_waits_until_the_workers_answer(place: Make) -> None:
    here = place(slowly(0.1))
    here.operator.ssh_delay = 2
    assert here.run() == "[0] trained\n"
    assert here.operator.tries == 1


@pytest.mark.parametrize("resource", ["events", "pods", "log"])
def test_a_missing_right_to_read_does_not_end_the_training(place: Make, resource: str, tmp_path: Path) -> None:
    here = place(until(tmp_path / "trained"))
    here.api.forbidden = {resource}
    joined = in_background(here.run)
    wait_for(lambda: here.operator.tries)
    here.wait_for_a_look()
    (tmp_path / "trained").touch()
    assert joined() is None
    assert here.operator.tries == 1
    assert sum("cannot see" in line for line in here.told) == (resource != "log")


def test_whatever_ends_the_step_takes_the_job_along(place: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    here = place(slowly(UNTIL_ENDED))

    def fail(*arguments: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(JobKind, "lost_worker", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        here.run()
    assert here.api.live_jobs() == []


def test_a_job_that_cannot_be_deleted_does_not_hide_why_the_step_ends(place: Make) -> None:
    here = place(slowly(UNTIL_ENDED))
    here.operator.image_trouble = "none"
    here.api.forbidden = {"DELETE"}
    with pytest.raises(KfrecError, match="its image cannot be had"):
        here.run()
    assert any(f"delete it with kubectl -n kubeflow delete mpijob {NAME}" in line for line in here.told)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_request_without_an_answer_is_made_again(place: Make, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(api, "_TIMEOUT", (1.0, 1.0))
    here = place(python("time.sleep(0.3); sys.exit(1 - tries)"))
    here.api.unanswered = [method]
    joined = in_background(lambda: here.run(restarts=1))
    assert joined() is None
    assert here.operator.tries == 2 and here.api.unanswered == []


def test_finished_jobs_are_deleted_when_their_time_is_over(place: Make) -> None:
    here = place(slowly(0.1))
    done = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    for name, ended, labels in (
        ("old", "2020-01-01T00:00:00Z", {"kfrec.io/training": "other"}),
        ("recent", now(), {"kfrec.io/training": "other"}),
        ("foreign", "2020-01-01T00:00:00Z", {}),
    ):
        metadata = {"name": name, "uid": name, "labels": labels}
        spec = {"runPolicy": {"ttlSecondsAfterFinished": 3600}}
        here.api.put_job({"metadata": metadata, "spec": spec, "status": {**done, "completionTime": ended}})
    evicted = {
        "type": "Failed",
        "status": "True",
        "reason": "MPIJobEvicted",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    metadata = {"name": "evicted", "uid": "evicted", "labels": {"kfrec.io/training": "other"}}
    here.api.put_job({"metadata": metadata, "spec": spec, "status": {"conditions": [evicted]}})
    here.run()
    assert here.api.live_jobs() == ["recent", "foreign", NAME]


def test_a_job_that_keeps_failing_is_told_with_its_exit_code_and_last_words(place: Make) -> None:
    here = place(python("print('[1,0]<stderr>:out of luck'); sys.exit(7)"))
    with pytest.raises(KfrecError) as error:
        here.run()
    assert "BackoffLimitExceeded: Job has reached the specified backoff limit; " in str(error.value)
    assert "exit code 7" in str(error.value) and "\n" not in str(error.value)
    assert any("out of luck" in line for line in here.told)


def test_a_rank_that_was_killed_is_told_with_its_worker_and_without_the_events_around_it(place: Make) -> None:
    node = f"{NAME}-worker-1.{NAME}.kubeflow.svc"
    lines = [
        '[1,0]<stdout>:{"kfrec": "progress", "label": "epoch", "unit": "x", "done": 1, "total": 2}',
        f"mpirun noticed that process rank 1 with PID 17 on node {node} exited on signal 9 (Killed).",
    ]
    here = place(python(f"for line in {lines!r}: print(line)\nsys.exit(137)"))
    with pytest.raises(KfrecError) as error:
        here.run()
    assert f"rank 1 on {NAME}-worker-1 exited on signal 9 (Killed), " in str(error.value)
    assert "raise pod_memory" in str(error.value)
    assert any("mpirun noticed" in line for line in here.told)
    assert not [line for line in here.told if '"kfrec"' in line]


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


def test_a_wrong_image_ends_the_job_in_one_line(place: Make) -> None:
    here = place(slowly(UNTIL_ENDED))
    here.operator.image_trouble = 'Back-off pulling image "kfrec-train:none"'
    with pytest.raises(KfrecError) as error:
        here.run()
    assert "its image cannot be had (kfrec-train:none ImagePullBackOff" in str(error.value)
    assert "\n" not in str(error.value)
    assert here.api.live_jobs() == []


def test_a_deadline_ends_the_job(place: Make) -> None:
    here = place(slowly(UNTIL_ENDED))
    with pytest.raises(KfrecError, match="DeadlineExceeded"):
        here.run(deadline=1)


def test_a_deadline_that_the_operator_does_not_enforce_is_enforced_here(place: Make) -> None:
    here = place(slowly(UNTIL_ENDED))
    here.operator.enforces_deadlines = False
    here.pace = replace(here.pace, grace=1)
    with pytest.raises(KfrecError, match="not done after the deadline of 1 s; raise deadline; the job was deleted"):
        here.run(deadline=1)
    assert here.api.live_jobs() == []


def test_a_job_without_a_node_is_told_and_its_deadline_does_not_count(
    place: Make, pass_time: Callable[[Place, float], None]
) -> None:
    here = place(python("print('[1,0]<stdout>:trained')"))
    here.operator.unschedulable = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    joined = in_background(lambda: here.run(deadline=1000))
    told = f"{NAME}-worker-0 has no node: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    wait_for(lambda: told in here.told)
    pass_time(here, 2000)
    here.operator.unschedulable = ""
    assert joined() is None
    assert (here.folder / "worker.log").read_text() == "[0] trained\n"


@pytest.mark.parametrize(
    ("namespace", "told"),
    [
        ("", "the service account may not do this in namespace kubeflow"),
        ("kubeflow", "job settings: namespace: no MPI"),
    ],
)
def test_a_refused_job_is_told_with_the_field_that_names_its_namespace(place: Make, namespace: str, told: str) -> None:
    here = place(slowly(UNTIL_ENDED))
    here.settings = JobSettings(namespace=namespace)
    here.api.forbidden = {"POST"}
    with pytest.raises(KfrecError, match=told):
        here.run()
    assert here.operator.tries == 0


def test_a_foreign_job_of_the_same_name_stays(place: Make) -> None:
    here = place(slowly(UNTIL_ENDED))
    container = {"command": ["true"], "env": [], "image": "x"}
    replicas = {"Worker": {"replicas": 0}, "Launcher": {"template": {"spec": {"containers": [container]}}}}
    policy = {"activeDeadlineSeconds": 1, "backoffLimit": 0}
    foreign = {"name": NAME, "annotations": {"kfrec.io/spec-digest": "other"}}
    here.api.create_job({"metadata": foreign, "spec": {"runPolicy": policy, "mpiReplicaSpecs": replicas}})
    with pytest.raises(KfrecError, match="exists with another specification; delete it"):
        here.run()
    assert NAME in here.api.jobs


def test_no_cluster_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(KfrecError, match="launcher=mpijob needs a cluster, but none is configured"):
        api.connect(KIND)
