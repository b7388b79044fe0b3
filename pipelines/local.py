"""Runs the training pipeline on this machine: kfp.local with one process a step, MLflow on SQLite."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO, cast

from components import registry
from components.artifacts.publish import remove_abandoned
from components.errors import KfrecError, explain_os_error
from components.lifetime import Stopped, as_parent
from components.progress.events import VARIABLE as EVENTS
from components.steps.catalog import MPIJOB, STEPS
from components.steps.parameter import build
from components.tracking.run import end_failed
from components.tracking.store import prepare
from pipelines.defaults import TRAINING, Pipeline, local_defaults
from pipelines.parameters import checked, pipeline_parameters, step_parameters
from pipelines.screen import StepOutput, table
from pipelines.summary import summarise
from pipelines.temporary import temporary_folder

# The modules that local steps import from other packages, by extra.
_MODULES = {
    "pipeline": ("kfp",),
    "preprocess": ("nvtabular", "orjson"),
    "records": ("numba",),
    "tensorflow": ("tensorflow",),
    "train": ("horovod",),
    "tracking": ("mlflow",),
}
# Where the steps of a run here work: run, pipeline, step, and the hidden folder beside the output.
_WORKING = "*/*/*/.*.partial"


def run(pipeline: Pipeline, values: Mapping[str, Any], workdir: Path) -> Path:
    """Runs a training pipeline and returns the path of summary.json.

    Args:
        pipeline: of the kind training.
        values: pipeline parameters by name; the others take their defaults.
        workdir: where runs, the download cache and MLflow's database live.

    Raises:
        KfrecError: a bad parameter, an unusable folder, or a step that failed.
    """
    started = time.monotonic()
    arguments = _arguments(pipeline, values, workdir)
    _check_installed(arguments)
    _check_launcher(pipeline, arguments)
    with _place(workdir) as (folder, output):
        _train(pipeline, arguments, folder, output)
        return _told(pipeline, arguments, folder, output, workdir, started)


def run_retraining(pipeline: Pipeline, values: Mapping[str, Any], workdir: Path) -> Path | None:
    """Runs the retraining pipeline: finds the newest data and trains on it if it is worth it.

    Returns:
        The path of summary.json, or None if training was skipped; the terminal shows the reason.

    Raises:
        KfrecError: a bad parameter, an unusable folder, or a step that failed.
    """
    from pipelines.retraining import training_arguments
    from pipelines.training import task_of

    started = time.monotonic()
    arguments = _arguments(pipeline, values, workdir)
    _check_installed(arguments)
    _check_launcher(pipeline, arguments)
    with _place(workdir) as (folder, output):
        with _kfp_local(folder, output):
            task_of("find", pipeline, arguments)
        found = output.finished["find"]["results"]
        print(found["occasion"])
        if not found["proceed"]:
            return None
        arguments = training_arguments(pipeline, arguments, found)
        _train(pipeline, arguments, folder, output)
        return _told(pipeline, arguments, folder, output, workdir, started)


def _arguments(pipeline: Pipeline, values: Mapping[str, Any], workdir: Path) -> dict[str, Any]:
    """Every parameter of a pipeline; parameters without a value have the local defaults."""
    local = {**local_defaults(pipeline), "cache_dir": str(workdir.absolute() / "cache")}
    known = pipeline_parameters(pipeline, local)
    return {name: parameter.plain_default for name, parameter in known.items()} | checked(values, pipeline, local)


def _check_installed(arguments: Mapping[str, Any]) -> None:
    """Checks before the first step that all steps can run in this environment.

    Raises:
        KfrecError: an extra is missing; each image only has the extras of its own steps.
    """
    used = {name: modules for name, modules in _MODULES.items() if name != "train" or arguments["launcher"] != MPIJOB}
    missing = {name: [module for module in modules if find_spec(module) is None] for name, modules in used.items()}
    extras = [name for name, modules in missing.items() if modules]
    if extras:
        modules = ", ".join(module for name in extras for module in missing[name])
        raise KfrecError(
            f"kfrec run needs {modules}, which this environment lacks; install kfrec[{','.join(extras)}] into it, or "
            "start the run on a cluster with kfrec submit, where each step has its own image"
        )


def _check_launcher(pipeline: Pipeline, arguments: Mapping[str, Any]) -> None:
    """Checks before the first step that a cluster for MPIJobs is configured.

    Raises:
        KfrecError: there is none, or its settings are wrong.
    """
    if arguments["launcher"] == MPIJOB:
        from components.train.step import launcher_of

        step = STEPS["train"]
        given = {p.name: arguments[p.pipeline_name] for p in step_parameters(step, pipeline)}
        launcher_of(build(step.parameters(pipeline.choices), given))


@contextlib.contextmanager
def _place(workdir: Path) -> Iterator[tuple[Path, StepOutput]]:
    """The folder of a new run, and what its steps say."""
    workdir = workdir.absolute()
    os.environ["MLFLOW_TRACKING_URI"] = os.environ.get("MLFLOW_TRACKING_URI") or database_uri(workdir)
    prepare()
    folder = _run_folder(workdir)
    print(f"run folder {folder}", file=sys.stderr)
    for path in remove_abandoned(workdir.glob(_WORKING)):
        print(f"removed {path}, which a run that was killed left behind", file=sys.stderr)
    with contextlib.closing(StepOutput(folder / "steps.log")) as output:
        try:
            yield folder, output
        except Stopped as stopped:
            stopped.kept = f" during the step {output.running}" if output.running else ""
            stopped.kept += f"; its processes were ended, and what is finished is in {folder}"
            raise


def database_uri(workdir: Path) -> str:
    """MLflow's database of a folder of runs."""
    return f"sqlite:///{workdir.absolute() / 'mlflow.db'}"


def _train(pipeline: Pipeline, arguments: Mapping[str, Any], folder: Path, output: StepOutput) -> None:
    from pipelines.training import training_pipeline

    try:
        with _kfp_local(folder, output):
            training_pipeline(pipeline.of_kind(TRAINING))(**arguments)
    except KfrecError:
        if "train" in output.finished:
            end_failed(arguments["experiment"], output.run_id)
        raise


def _told(
    pipeline: Pipeline, arguments: Mapping[str, Any], folder: Path, output: StepOutput, workdir: Path, started: float
) -> Path:
    """Writes summary.json and shows it as a table."""
    look = f"{Path(sys.executable).with_name('kfrec')} ui --workdir {workdir.absolute()}"
    task = registry.task(pipeline.choices["task"])
    uri = os.environ["MLFLOW_TRACKING_URI"]
    summary = summarise(output.run_id, arguments, output.finished, uri, look, task.metrics)
    path = folder / "summary.json"
    path.write_text(json.dumps(summary, indent=2) + "\n")
    print(table(summary, started, task))
    return path


def _run_folder(workdir: Path) -> Path:
    folder = workdir / f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        told = KfrecError(f"{folder}: cannot be created ({error.strerror}); choose another workdir")
        raise explain_os_error(error, folder) or told from error
    return folder


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Sets environment variables for the steps that are started within the block."""
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
def _kfp_local(folder: Path, output: StepOutput) -> Iterator[None]:
    """kfp.local, set up so that steps are processes of this environment and their output goes to ``output``.

    Raises:
        KfrecError: a step failed.
    """
    from kfp import local

    # The subprocess runner warns that an image is not named python; it never runs the image.
    warnings.filterwarnings("ignore", message="You may be attemping to run a task", category=RuntimeWarning)
    local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root=str(folder))
    with temporary_folder() as temporary, _environment(TMPDIR=str(temporary), **{EVENTS: "1"}, **as_parent()):
        try:
            with contextlib.redirect_stdout(cast(TextIO, output)):
                yield
        except RuntimeError as error:
            raise KfrecError(_failure(output)) from error


def _failure(output: StepOutput) -> str:
    if output.error:
        return output.error
    return f"a step stopped without saying why; the end of {output.log}:\n{output.tail()}"
