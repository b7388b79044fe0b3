"""One trial: the train step in a separate process, monitored after every epoch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.crash import describe_status, describe_traceback
from components.errors import KfrecError
from components.lifetime import as_parent
from components.private import SAFE_PATH
from components.progress import EVENTS, parse_event
from components.steps.catalog import STEPS
from pipelines.defaults import Pipeline
from pipelines.parameters import step_parameters

LOG, EVALUATION_LOG = "trial.log", "evaluation.log"


class Pruned(Exception):
    """The trial was stopped because others do better."""


def run_trial(
    pipeline: Pipeline,
    arguments: Mapping[str, Any],
    tfrecord: str,
    folder: Path,
    run_id: str,
    is_hopeless: Callable[[int, Mapping[str, Any]], bool],
) -> dict[str, Any]:
    """Trains once and returns the results of the exported epoch.

    Args:
        folder: of the trial; receives the model and the log.
        is_hopeless: maps the number of finished epochs and the last metrics to whether to stop the trial.

    Raises:
        Pruned: the trial was stopped.
        KfrecError: the training failed.
    """
    folder.mkdir(parents=True)
    command = _command(pipeline, arguments, tfrecord, folder / "model")
    try:
        return dict(_run(command, folder / LOG, run_id, is_hopeless)["metrics"])
    except BaseException:
        shutil.rmtree(folder / ".model.checkpoint", ignore_errors=True)
        raise


def evaluate(pipeline: Pipeline, arguments: Mapping[str, Any], tfrecord: str, folder: Path, run_id: str) -> Path:
    """Evaluates the model of a trial on the test split and returns the evaluation's folder.

    Raises:
        KfrecError: the step failed.
    """
    evaluation = folder / "evaluation"
    folders = [f"--tfrecord={tfrecord}", f"--model={folder / 'model'}", f"--evaluation={evaluation}"]
    options = _words("evaluate", pipeline, arguments, {"task": pipeline.choices["task"]})
    _run([sys.executable, "-m", "components.evaluate", *folders, *options], folder / EVALUATION_LOG, run_id)
    return evaluation


def _run(
    command: list[str], path: Path, run_id: str, is_hopeless: Callable[[int, Mapping[str, Any]], bool] | None = None
) -> dict[str, Any]:
    """Runs a step and returns its results; terminates it if it is hopeless, or on a signal.

    Raises:
        Pruned: the step was hopeless.
        KfrecError: the step failed.
    """
    environment = os.environ | as_parent() | SAFE_PATH | {EVENTS: "1", "MLFLOW_RUN_ID": run_id}
    error, results = "", None
    with (
        path.open("w") as log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                event = parse_event(line)
                if event is None:
                    log.write(line)
                elif event["kfrec"] == "epoch" and is_hopeless and is_hopeless(event["epoch"], event["metrics"]):
                    raise Pruned
                elif event["kfrec"] == "error":
                    error = event["message"]
                elif event["kfrec"] == "finished":
                    results = event["results"]
        except BaseException:
            process.terminate()  # the step ends its workers
            process.communicate()
            raise
    if results is None:
        lines = path.read_text(errors="replace").splitlines()
        message = error or describe_traceback(lines) or describe_status(process.returncode)
        raise KfrecError(f"{message}; its log is {path}")
    return dict(results)


def _command(pipeline: Pipeline, arguments: Mapping[str, Any], tfrecord: str, model: Path) -> list[str]:
    choices = {"model_type": pipeline.choices["model_type"], "task": pipeline.choices["task"]}
    options = _words("train", pipeline, arguments, choices)
    return [sys.executable, "-m", "components.train", f"--tfrecord={tfrecord}", f"--model={model}", *options]


def _words(step: str, pipeline: Pipeline, arguments: Mapping[str, Any], choices: Mapping[str, str]) -> list[str]:
    """A step's parameters as command-line options."""
    values = {p.name: arguments[p.pipeline_name] for p in step_parameters(STEPS[step], pipeline)} | dict(choices)
    return [f"--{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in values.items()]


def shared_out(arguments: Mapping[str, Any], parallel: int) -> dict[str, Any]:
    """Arguments for concurrent trainings on this machine: each gets its share of the cores, without CPU affinity."""
    if parallel == 1:
        return dict(arguments)
    share = max(1, (os.cpu_count() or 1) // parallel // int(arguments["workers"]))
    threads = ("intra_op_parallelism", "num_parallel_calls")
    return dict(arguments) | {"affinity": "disabled"} | {name: arguments[name] or share for name in threads}


def at_a_time(parallel: int, workers: int) -> int:
    """Number of concurrent trials; 0 is one core per worker."""
    return parallel or max(1, (os.cpu_count() or 1) // workers)


# Serialises writes to the terminal.
SCREEN = threading.Lock()
