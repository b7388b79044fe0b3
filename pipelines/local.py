"""Runs the pipelines on this machine: kfp.local with one process per step, MLflow on SQLite."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO, cast

from components import registry
from components.artifacts.notes import read_notes
from components.crash import describe_status, describe_traceback
from components.errors import KfrecError
from components.lifetime import as_parent
from components.parameters import build
from components.private import SAFE_PATH
from components.progress import EVENTS
from components.secrets import VARIABLE as SECRETS
from components.secrets import secrets_variable, without_passwords
from components.steps.catalog import STEPS
from components.steps.training_parameters import MPIJOB, OF_A_REFIT
from components.temporary import temporary_folder
from components.tracking.run import end_failed
from pipelines.defaults import (
    DECIDED,
    OF_ANY_MODEL,
    OF_REFIT,
    REFIT,
    TRAINING,
    Pipeline,
    local_defaults,
    whose_defaults,
)
from pipelines.form import pipeline_inputs
from pipelines.parameters import checked, pipeline_parameters, step_parameters
from pipelines.runs.earlier import Earlier, LosesEpochs, checkpoints_of, finished_refit, finished_steps
from pipelines.runs.lifecycle import OWN_GROUP, begin, offering_to_stop, running, tracked_at
from pipelines.runs.record import RUNNING, SUMMARY, RunRecord, read_record, still_running
from pipelines.screen import StepOutput, table
from pipelines.summary import summarise

# The modules that local steps import from other packages, by extra.
_MODULES = {
    "pipeline": ("kfp",),
    "preprocess": ("nvtabular", "orjson"),
    "records": ("numba",),
    "tensorflow": ("tensorflow",),
    "train": ("horovod",),
    "tracking": ("mlflow",),
}


def run(pipeline: Pipeline, values: Mapping[str, Any], workdir: Path) -> Path | None:
    """Runs a pipeline and returns the path of summary.json.

    A retraining finds the newest data first, and trains if there is enough new data.

    Args:
        values: pipeline parameters by name; missing ones take their defaults.
        workdir: folder of runs, the download cache and MLflow's database.

    Returns:
        The path; for a prediction or a recommendation, the folder of its output. None if a retraining trained nothing;
        the reason is printed.

    Raises:
        KfrecError: a bad parameter, an unusable folder, or a failed step.
    """
    arguments = arguments_of(pipeline, values, workdir)
    check_environment(pipeline, arguments)
    _check_data(pipeline, arguments)
    record = begin(pipeline, arguments, workdir)
    _report_local_defaults(pipeline, arguments, values)
    with running(record) as output:
        return _finish(record, Earlier(), output)


def resume(folder: Path, values: Mapping[str, Any]) -> Path | None:
    """Resumes a run that failed or was stopped; finished steps whose outputs are still valid are skipped.

    Args:
        values: pipeline parameters by name, in place of those of the run; steps that finished with others run again.

    Returns:
        See ``run``.

    Raises:
        KfrecError: the run has finished or is still running, a bad parameter, or a step failed.
    """
    record = read_record(folder)
    if record.purpose:
        raise KfrecError(f"{folder}: the run belongs to another command; start that again: {record.purpose}")
    if record.state_now() == RUNNING:
        raise still_running(folder)
    # The record omits passwords; the call supplies them.
    arguments = arguments_of(record.pipeline, record.parameters | dict(values), folder.parent)
    check_environment(record.pipeline, arguments)
    _report_changes(record, arguments)
    before, record.parameters = record.parameters, arguments
    os.environ["MLFLOW_TRACKING_URI"] = tracked_at(record)
    with running(record) as output:
        results = record.steps.get("find", {}).get("results", {})
        earlier = finished_steps(record, record.pipeline, record.parameters | results)
        for name in earlier.steps:
            print(f"{name:<10} is finished", file=sys.stderr, flush=True)
        try:
            return _finish(record, earlier, output)
        except LosesEpochs:
            record.parameters = before  # so that the next attempt has what the checkpoints were made with
            raise


def _finish(record: RunRecord, earlier: Earlier, output: StepOutput) -> Path | None:
    """Runs the remaining steps, writes summary.json and shows it."""
    began = time.monotonic() - sum(event["seconds"] for event in earlier.steps.values())
    output.finished.update({name: dict(event) for name, event in earlier.steps.items()})
    output.run_id = earlier.run_id
    arguments: Mapping[str, Any] | None = record.parameters
    refitted = {name: event for name, event in record.steps.items() if name.startswith(OF_REFIT)}
    if record.pipeline.kind in OF_ANY_MODEL:
        return _inferred(record, earlier, output)
    if record.pipeline.kind in DECIDED:
        arguments = _decision(record, earlier, output)
    if arguments is None:
        return None
    train(record.pipeline.of_kind(TRAINING), arguments, record, earlier, output)
    if output.finished["register"]["results"].get("refit"):
        try:
            _refit(record.pipeline.of_kind(TRAINING), arguments, record, refitted, output)
        except KfrecError as error:
            judged = read_notes(Path(output.finished["register"]["outputs"]["registration"]) / "registration.json")
            until = f"{judged['registered_model']} version {judged['version']}, which was judged, is served until then"
            error.args = (f"{error}; the refit is not published: {until}",)
            raise
    return _show_summary(record, arguments, output, began)


def _inferred(record: RunRecord, earlier: Earlier, output: StepOutput) -> Path:
    """Runs a prediction or a recommendation, unless an earlier attempt did; returns the folder of its last step."""
    from pipelines.definitions import inference_pipeline

    last = record.pipeline.steps[-1]
    if last not in earlier.steps:
        with _kfp_local(record.folder, output, record.parameters) as shown:
            inference_pipeline(record.pipeline, earlier=earlier)(**pipeline_inputs(record.pipeline, shown))
    (folder,) = output.finished[last]["outputs"].values()
    return Path(folder)


def _decision(record: RunRecord, earlier: Earlier, output: StepOutput) -> Mapping[str, Any] | None:
    """The training parameters of a retraining; None if there is nothing new."""
    from pipelines.definitions import task_of, training_arguments

    if "find" not in earlier.steps:
        with _kfp_local(record.folder, output, record.parameters) as shown:
            given = pipeline_inputs(record.pipeline, shown)
            task_of("find", record.pipeline, pipeline_parameters(record.pipeline), given)
    results = output.finished["find"]["results"]
    print(results["occasion"])
    if not results["proceed"]:
        record.message = results["occasion"]
        return None
    return training_arguments(record.pipeline, record.parameters, results)


def _report_changes(record: RunRecord, arguments: Mapping[str, Any]) -> None:
    """Reports the changed parameters that no finished step has used; for the others, see finished_steps."""
    steps = {
        parameter.pipeline_name: name
        for name in reversed(record.pipeline.steps)
        for parameter in step_parameters(STEPS[name], record.pipeline)
    }
    shown = without_passwords(dict(arguments))
    for name, value in shown.items():
        if name in record.parameters and record.parameters[name] != value and steps[name] not in record.steps:
            print(
                f"parameter {name} changed from {record.parameters[name]!r} to {value!r}: {steps[name]} runs with it",
                file=sys.stderr,
            )


def arguments_of(pipeline: Pipeline, values: Mapping[str, Any], workdir: Path) -> dict[str, Any]:
    """All parameters of a pipeline; missing values take the local defaults."""
    local = {**local_defaults(pipeline), "cache_dir": str(workdir.absolute() / "cache")}
    known = pipeline_parameters(pipeline, local)
    return {name: parameter.plain_default for name, parameter in known.items()} | checked(values, pipeline, local)


def _report_local_defaults(pipeline: Pipeline, arguments: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Prints the values of a run that are neither given nor the steps' own defaults, and whose defaults they are."""
    steps = {name: parameter.plain_default for name, parameter in pipeline_parameters(pipeline).items()}
    assigned_by: dict[str, list[str]] = {}
    for name, whose in whose_defaults(pipeline).items():
        if name in arguments and name not in values and arguments[name] != steps[name]:
            assigned_by.setdefault(whose, []).append(f"{name}={arguments[name]}")
    if assigned_by:
        each = "; ".join(f"{', '.join(assigned)} ({whose})" for whose, assigned in assigned_by.items())
        print(f"defaults: {each}; kfrec parameters lists all", file=sys.stderr)


def check_environment(pipeline: Pipeline, arguments: Mapping[str, Any]) -> None:
    """Checks before the first step that every step can run here.

    Raises:
        KfrecError: an extra is missing, no cluster is configured for MPIJobs, or the model to start from is missing.
    """
    _check_installed(arguments)
    _check_given_model(arguments)
    _check_launcher(pipeline, arguments)
    _check_workers(arguments)


def _check_installed(arguments: Mapping[str, Any]) -> None:
    """Checks before the first step that all steps can run in this environment.

    Raises:
        KfrecError: an extra is missing; each image only has the extras of its own steps.
    """
    used = {
        name: modules for name, modules in _MODULES.items() if name != "train" or arguments.get("launcher") != MPIJOB
    }
    missing = {name: [module for module in modules if find_spec(module) is None] for name, modules in used.items()}
    extras = [name for name, modules in missing.items() if modules]
    if extras:
        modules = ", ".join(module for name in extras for module in missing[name])
        raise KfrecError(
            f"kfrec run needs {modules}, which this environment lacks; install kfrec[{','.join(extras)}] into it, or "
            "start the run on a cluster with kfrec submit, where each step has its own image"
        )


def _check_given_model(arguments: Mapping[str, Any]) -> None:
    """Checks before the first step that the model that a training here starts from exists, unless a URI names it.

    Raises:
        KfrecError: there is no such folder.
    """
    for name in ("warm_start_path", "continue_path"):
        given = arguments.get(name, "")
        if given and "://" not in given and arguments.get("launcher") != MPIJOB and not Path(given).is_dir():
            raise KfrecError(
                f"parameter {name}={given}: no such folder; give the folder or URI of a model, such as the folder "
                "model of an earlier run"
            )


def _check_launcher(pipeline: Pipeline, arguments: Mapping[str, Any]) -> None:
    """Checks before the first step that a cluster for MPIJobs is configured.

    Raises:
        KfrecError: no cluster is configured, or its settings are wrong.
    """
    if arguments.get("launcher") == MPIJOB:
        from components.train.step import launcher_of

        step = STEPS["train"]
        values = {p.name: arguments[p.pipeline_name] for p in step_parameters(step, pipeline)}
        launcher_of(build(step.parameters(pipeline.choices), values))


def _check_workers(arguments: Mapping[str, Any]) -> None:
    """Checks before the first step that a training here has no more workers than cores, beyond a pair.

    Raises:
        KfrecError: it has; each would import TensorFlow and take its share of the memory, and none would be faster.
    """
    cores, workers = len(os.sched_getaffinity(0)), arguments.get("workers", 1)
    if arguments.get("launcher") != MPIJOB and workers > max(cores, 2):
        raise KfrecError(f"parameter workers={workers}: this machine has {cores} cores; give at most {max(cores, 2)}")


def _check_data(pipeline: Pipeline, arguments: Mapping[str, Any]) -> None:
    """Checks that a retraining has data, before the run folder and MLflow's store are created.

    Raises:
        KfrecError: there is no data version.
    """
    if pipeline.kind in DECIDED:
        from components.find.versions import data_versions

        data_versions(arguments["data_prefix"], registry.dataset(pipeline.choices["dataset"]).raw)


def train(
    pipeline: Pipeline,
    arguments: Mapping[str, Any],
    record: RunRecord,
    earlier: Earlier,
    output: StepOutput,
    last: str = "register",
) -> None:
    """Runs the steps of a training up to ``last``, except those that an earlier attempt finished.

    Raises:
        KfrecError: a step failed.
    """
    from pipelines.definitions import training_pipeline

    if last in earlier.steps:
        return
    values = dict(arguments)
    if "train" not in earlier.steps and (left := checkpoints_of(record, pipeline, arguments, earlier)):
        print(f"{'train':<10} resumes from {left}", file=sys.stderr, flush=True)
        values["load_checkpoint_path"] = left
    try:
        with (
            _kfp_local(record.folder, output, values) as shown,
            offering_to_stop(record, lambda: output.running == "train"),
        ):
            training_pipeline(pipeline, earlier=earlier, last=last, refits=False)(**pipeline_inputs(pipeline, shown))
    except KfrecError:
        if "train" in output.finished:
            end_failed(arguments["experiment"], output.run_id)
        raise


def _refit(
    pipeline: Pipeline,
    arguments: Mapping[str, Any],
    record: RunRecord,
    events: Mapping[str, Mapping[str, Any]],
    output: StepOutput,
) -> None:
    """Trains the champion again on everything, and publishes that.

    Args:
        events: those of an earlier attempt, by step, whose valid outputs are reused.

    Raises:
        KfrecError: a step failed.
    """
    from pipelines.definitions import refit_pipeline

    artifacts = {name: path for event in output.finished.values() for name, path in event["outputs"].items()}
    values = {**arguments, **OF_A_REFIT, "epochs": output.finished["register"]["results"]["epochs"]}
    earlier = finished_refit(record.run_id, events, pipeline, values, artifacts)
    output.finished.update({OF_REFIT + name: dict(event) for name, event in earlier.steps.items()})
    if REFIT[-1] in earlier.steps:
        return
    output.part = OF_REFIT
    if "train" not in earlier.steps and (left := checkpoints_of(record, pipeline, values, earlier, OF_REFIT)):
        print(f"{OF_REFIT}train resumes from {left}", file=sys.stderr, flush=True)
        values["load_checkpoint_path"] = left
    with _kfp_local(record.folder, output, values) as shown:
        refit_pipeline(pipeline, artifacts, earlier)(**pipeline_inputs(pipeline, shown))


def _show_summary(record: RunRecord, arguments: Mapping[str, Any], output: StepOutput, began: float) -> Path:
    """Writes summary.json and shows it as a table."""
    look = shlex.join([str(Path(sys.executable).with_name("kfrec")), "ui", "--workdir", str(record.folder.parent)])
    task = registry.task(record.pipeline.choices["task"]).at(arguments)
    summary = summarise(
        output.run_id, record.pipeline, arguments, output.finished, os.environ["MLFLOW_TRACKING_URI"], look
    )
    report = record.folder / "evaluation" / Path(summary["artifacts"]["report"]).name
    if report.is_file():  # through the link of the run's folder
        summary["artifacts"]["report"] = str(report)
    path = record.folder / SUMMARY
    path.write_text(json.dumps(summary, indent=2) + "\n")
    print(table(summary, began, task))
    return path


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Sets environment variables for steps started within the block."""
    earlier = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in earlier.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def _kfp_local(folder: Path, output: StepOutput, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """kfp.local with steps as subprocesses of this environment, and stdout redirected to ``output``.

    Yields the arguments without passwords, which steps get by their environment: kfp.local writes arguments into files
    and command lines.

    Raises:
        KfrecError: a step failed.
    """
    from kfp import local

    # The subprocess runner warns that an image is not named python; it never runs the image.
    warnings.filterwarnings("ignore", message="You may be attemping to run a task", category=RuntimeWarning)
    local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root=str(folder))
    with (
        temporary_folder(),
        _environment(**{EVENTS: "1", SECRETS: secrets_variable(arguments)}, **as_parent(), **SAFE_PATH),
        _exit_statuses() as statuses,
    ):
        try:
            with contextlib.redirect_stdout(cast(TextIO, output)):
                yield without_passwords(dict(arguments))
        except RuntimeError as error:
            if not statuses:
                raise
            raise KfrecError(_failure(output, statuses[-1])) from error


def _failure(output: StepOutput, status: int) -> str:
    """Why a step failed, in one line."""
    if output.error:
        return output.error
    step = output.running or "a step"
    message = describe_traceback(output.step_lines()) or describe_status(status)
    return f"{step}: {message}; its output is in {output.log}"


@contextlib.contextmanager
def _exit_statuses() -> Iterator[list[int]]:
    """The exit statuses of the steps that kfp.local runs in the block; kfp.local itself only tells that one failed."""
    from kfp.local import subprocess_task_handler as handler

    statuses: list[int] = []
    run_step = handler.run_local_subprocess

    def noted(*, full_command: Sequence[str], **of_step: Any) -> int:
        statuses.append(run_step(full_command=[*OWN_GROUP, *full_command], **of_step))
        return statuses[-1]

    handler.run_local_subprocess = noted
    try:
        yield statuses
    finally:
        handler.run_local_subprocess = run_step
