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
from pathlib import Path
from typing import Any, TextIO, cast

from components.errors import KfrecError, explain_os_error
from components.progress.events import VARIABLE as EVENTS
from pipelines.defaults import LOCAL_DEFAULTS
from pipelines.parameters import checked, pipeline_parameters
from pipelines.screen import StepOutput, table
from pipelines.summary import summarise


def run(values: Mapping[str, Any], workdir: Path) -> Path:
    """Runs the pipeline and returns the path of summary.json.

    Args:
        values: pipeline parameters by name; the others take their defaults.
        workdir: where runs, the download cache and MLflow's database live.

    Raises:
        KfrecError: a bad parameter, an unusable folder, or a step that failed.
    """
    started = time.monotonic()
    workdir = workdir.absolute()
    known = {name: parameter.plain_default for name, parameter in pipeline_parameters().items()}
    local = {**LOCAL_DEFAULTS, "cache_dir": str(workdir / "cache")}
    arguments = {**known, **local, **checked(values)}
    folder = _run_folder(workdir)
    tracking_uri = os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{workdir / 'mlflow.db'}")
    print(f"run folder {folder}", file=sys.stderr)
    with contextlib.closing(StepOutput(folder / "steps.log")) as output:
        with _kfp_local(folder, output) as pipeline:
            try:
                pipeline(**arguments)
            except RuntimeError as error:
                raise KfrecError(_failure(output)) from error
        look = f"{Path(sys.executable).with_name('kfrec')} ui --workdir {workdir}"
        summary = summarise(output.run_id, arguments, output.finished, tracking_uri, look)
    path = folder / "summary.json"
    path.write_text(json.dumps(summary, indent=2) + "\n")
    print(table(summary, started))
    return path


def _run_folder(workdir: Path) -> Path:
    folder = workdir / f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise explain_os_error(error, folder) or error from error
    return folder


@contextlib.contextmanager
def _kfp_local(folder: Path, output: StepOutput) -> Iterator[Any]:
    """kfp.local, set up so that steps are processes of this environment and their output goes to ``output``."""
    from kfp import local

    from pipelines.training import training_pipeline

    # The subprocess runner warns that an image is not named python; it never runs the image.
    warnings.filterwarnings("ignore", message="You may be attemping to run a task", category=RuntimeWarning)
    local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root=str(folder))
    os.environ[EVENTS] = "1"
    try:
        with contextlib.redirect_stdout(cast(TextIO, output)):
            yield training_pipeline()
    finally:
        del os.environ[EVENTS]


def _failure(output: StepOutput) -> str:
    if output.error:
        return output.error
    return f"a step stopped without saying why; the end of {output.log}:\n{output.tail()}"
