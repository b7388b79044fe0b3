import getpass
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient

from components.errors import KfrecError
from components.tracking.run import end_failed, tracked_run


def test_steps_of_one_pipeline_run_share_one_mlflow_run(store: str) -> None:
    with tracked_run("shared", "pipeline-1") as train:
        train.log_metrics({"train_auc": 0.8})
    with tracked_run("shared", "pipeline-1") as evaluate:
        evaluate.log_metrics({"test_auc": 0.7})
    assert train.id == evaluate.id
    run = MlflowClient(store).get_run(train.id)
    assert run.data.metrics == {"train_auc": 0.8, "test_auc": 0.7}
    assert run.data.tags["kfrec.pipeline_run"] == "pipeline-1"


def test_another_pipeline_run_has_another_mlflow_run(store: str) -> None:
    with tracked_run("two", "pipeline-1") as one, tracked_run("two", "pipeline-2") as two:
        assert one.id != two.id


def test_without_a_pipeline_run_each_call_starts_its_own(store: str) -> None:
    with tracked_run("own") as one, tracked_run("own") as two:
        assert one.id != two.id


def test_mlflow_run_id_is_joined(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tracked_run("joined") as first:
        pass
    monkeypatch.setenv("MLFLOW_RUN_ID", first.id)
    with tracked_run("joined") as second:
        assert second.id == first.id


def test_the_run_that_kfp_starts_is_the_parent_of_the_pipeline_runs_own(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KFP 2.17 starts a run for the pipeline run, one for each step below it, and sets MLFLOW_RUN_ID to the latter."""
    client = MlflowClient(store)
    experiment = client.create_experiment("KFP-Default")
    root = client.create_run(experiment).info.run_id
    for step in ("train", "evaluate"):
        of_the_step = client.create_run(experiment, tags={"mlflow.parentRunId": root}, run_name=step)
        monkeypatch.setenv("MLFLOW_RUN_ID", of_the_step.info.run_id)
        with tracked_run("of-kfp", "pipeline-7") as run:
            assert client.get_run(run.id).data.tags["mlflow.parentRunId"] == root
    own = client.get_experiment_by_name("of-kfp")
    assert own is not None and len(client.search_runs([own.experiment_id])) == 1


def test_a_run_of_kfp_on_another_server_is_no_parent(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "0123456789abcdef0123456789abcdef")
    with tracked_run("of-kfp", "pipeline-8") as run:
        assert "mlflow.parentRunId" not in MlflowClient(store).get_run(run.id).data.tags


def test_an_unknown_mlflow_run_id_is_one_line(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "0123456789abcdef0123456789abcdef")
    with pytest.raises(KfrecError, match="MLFLOW_RUN_ID=0123456789abcdef0123456789abcdef: no such run"):
        tracked_run("joined").__enter__()


def test_a_run_ends_finished(store: str) -> None:
    with tracked_run("status", "good") as run:
        assert MlflowClient(store).get_run(run.id).info.status == "RUNNING"
    assert MlflowClient(store).get_run(run.id).info.status == "FINISHED"


def test_a_run_whose_step_raises_is_failed_until_the_step_is_tried_again(store: str) -> None:
    with pytest.raises(ZeroDivisionError), tracked_run("status", "bad") as run:
        _ = 1 / 0
    assert MlflowClient(store).get_run(run.id).info.status == "FAILED"
    with tracked_run("status", "bad"):
        pass
    assert MlflowClient(store).get_run(run.id).info.status == "FINISHED"


@pytest.mark.parametrize("stop", [SystemExit(128 + signal.SIGTERM), KeyboardInterrupt()])
def test_a_run_whose_step_is_asked_to_stop_is_killed(stop: BaseException, store: str) -> None:
    with pytest.raises(type(stop)), tracked_run("status", "stopped") as run:
        raise stop
    assert MlflowClient(store).get_run(run.id).info.status == "KILLED"


def test_a_pipeline_run_that_fails_after_its_last_tracked_step_is_failed(store: str) -> None:
    with tracked_run("status", "failed later") as run:
        pass
    end_failed("status", "failed later")
    end_failed("status", "never began")
    assert MlflowClient(store).get_run(run.id).info.status == "FAILED"


_OPEN_A_RUN = """
import sys, time
from components.tracking.run import tracked_run
with tracked_run("killed", sys.argv[1]) as run:
    print(run.id, flush=True)
    time.sleep(3600)
"""


@contextmanager
def open_elsewhere(run_id: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that has a run open, and the run's id."""
    process = subprocess.Popen([sys.executable, "-c", _OPEN_A_RUN, run_id], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_the_run_of_a_killed_process_is_ended_by_the_next_one(store: str) -> None:
    with open_elsewhere("killed") as (process, left):
        with tracked_run("another experiment"):
            pass
        client = MlflowClient(store)
        assert client.get_run(left).info.status == "RUNNING"  # it is alive
        process.kill()
        process.wait()
        with tracked_run("another experiment"):
            pass
        run = client.get_run(left)
        assert (run.info.status, run.data.tags["kfrec.killed"]) == (
            "KILLED",
            f"process {process.pid} ended without ending the run",
        )
        with tracked_run("killed", "killed") as again:
            assert again.id == left and client.get_run(left).info.status == "RUNNING"
    assert client.get_run(left).info.status == "FINISHED"


def test_a_run_of_another_host_is_not_judged(store: str) -> None:
    client = MlflowClient(store)
    with tracked_run("hosts") as run:
        client.set_tag(run.id, "kfrec.host", "another")
        client.set_tag(run.id, "kfrec.process", "1:1")
        with tracked_run("hosts"):
            assert client.get_run(run.id).info.status == "RUNNING"


def test_a_pid_that_was_given_to_another_process_is_not_the_owner(store: str) -> None:
    client = MlflowClient(store)
    with tracked_run("reused") as run:
        client.set_tag(run.id, "kfrec.process", f"{os.getpid()}:1")
        with tracked_run("reused"):
            assert client.get_run(run.id).info.status == "KILLED"


def test_a_run_has_a_readable_name_and_a_user(store: str) -> None:
    with tracked_run("named", "19024073-5d7c-44f1", "sim synthetic") as run:
        pass
    kept = MlflowClient(store).get_run(run.id)
    assert re.fullmatch(r"sim synthetic \d{4}-\d\d-\d\d \d\d:\d\d 19024073", kept.info.run_name)
    assert kept.data.tags["mlflow.user"] == kept.info.user_id == getpass.getuser()


def test_a_user_without_a_name_is_a_number(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    monkeypatch.setattr(getpass, "getuser", nameless)
    with tracked_run("named") as run:
        pass
    assert MlflowClient(store).get_run(run.id).data.tags["mlflow.user"] == f"uid {os.getuid()}"


def test_parameters_may_be_logged_twice_and_a_changed_one_becomes_a_tag(store: str) -> None:
    with tracked_run("parameters", "p") as run:
        run.log_parameters({"lr": 0.01, "epochs": 3})
    with tracked_run("parameters", "p") as run:
        run.log_parameters({"lr": 0.01, "epochs": 5, "seed": 1})
    data = MlflowClient(store).get_run(run.id).data
    assert data.params == {"lr": "0.01", "epochs": "3", "seed": "1"}
    assert data.tags["changed.epochs"] == "5"


def test_more_parameters_than_one_request_holds(store: str) -> None:
    with tracked_run("parameters") as run:
        run.log_parameters({f"p{i}": i for i in range(250)})
    assert len(MlflowClient(store).get_run(run.id).data.params) == 250


def test_a_series_longer_than_one_request_keeps_every_step(store: str) -> None:
    with tracked_run("series") as run:
        run.log_series([(step, {"loss": 1.0 / (step + 1)}) for step in range(2500)])
    history = MlflowClient(store).get_metric_history(run.id, "loss")
    assert sorted((m.step, m.value) for m in history) == [(step, 1.0 / (step + 1)) for step in range(2500)]


def test_artifacts_of_an_sqlite_store_lie_beside_the_database(
    store: str, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.html").write_text("<p>")
    with tracked_run("art/ifacts") as run:
        run.log_artifact(tmp_path / "beside.html", "evaluation")
    found = list((database.parent / "mlartifacts").rglob("beside.html"))
    assert [path.read_text() for path in found] == ["<p>"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside.html"]


def test_the_default_store_is_a_database_under_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from components.tracking.store import tracking_uri

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    assert tracking_uri() == f"sqlite:///{tmp_path}/runs/mlflow.db"


def test_a_deleted_experiment_says_how_to_restore_it(store: str) -> None:
    with tracked_run("gone"):
        pass
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("gone")
    assert experiment is not None
    client.delete_experiment(experiment.experiment_id)
    with pytest.raises(KfrecError, match=f"mlflow experiments restore -x {experiment.experiment_id}"):
        tracked_run("gone", "run").__enter__()


def test_tracking_says_nothing(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    with tracked_run("quiet"):
        pass
    assert capfd.readouterr() == ("", "")
