"""The train step: runs workers that train a model on the records, and publishes their results."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from components import registry
from components.artifacts import Artifact, open_artifact, open_input, publishing
from components.artifacts.remote import fetch_artifact
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.steps.catalog import LaunchParameters
from components.steps.recorded import recorded
from components.steps.training_parameters import LOCAL, MPIJOB, OF_A_REFIT
from components.storage import is_uri
from components.tasks import TaskDefinition, missing_column
from components.tracking.champion import require_task_early
from components.tracking.live import TrainingRun, training_run
from components.tracking.run import TrackedRun, refit_of
from components.tracking.trained import complete_training, data_name, final_metrics, log_start
from components.train.failure import failing_once, left_on_failure, require_one_start
from components.train.launching.launch import STAGE, Launcher, LocalLauncher, worker_arguments
from components.train.results import CHECKPOINT, trained_rows
from components.training_log import LOG as TRAINING_LOG
from components.training_log import MEASURED, TRAINING

LOG = "worker.log"


def run(
    parameters: LaunchParameters, *, tfrecord: Path, model: Path, launcher: Launcher | None = None
) -> Mapping[str, Any]:
    """Trains a model.

    Args:
        model: receives the model; an earlier one is kept until the new one is complete.
        launcher: where the workers run; this machine by default.

    Returns:
        ``train`` and ``validation``: samples trained on, over all epochs, and samples that judged them, if any;
        ``trained_model``: the model's location; ``metrics``: results of the exported epoch.

    Raises:
        KfrecError: bad input; if training had begun, its checkpoints are kept and the message names their folder.
    """
    require_one_start(parameters.load_checkpoint_path, parameters.continue_path)
    if parameters.refitting:
        parameters = replace(parameters, **OF_A_REFIT, run_id=refit_of(parameters.run_id))
    in_storage = parameters.launcher == MPIJOB
    data = open_input(tfrecord, steps=("tfrecord",), reads=(parameters.feature_spec,) if in_storage else None)
    tfrecord = data.path
    spec = load_feature_spec(tfrecord, parameters.feature_spec)
    task = registry.task(parameters.task or registry.model(parameters.model_type).task).at(vars(parameters))
    if lacking := missing_column(spec, task.kept):  # the evaluation would refuse it after the training
        raise KfrecError(lacking)
    launcher = launcher or launcher_of(parameters)
    if parameters.registered_model:
        require_task_early(parameters.registered_model, task.name)
    if in_storage:
        return _train_in_storage(parameters, data, launcher, task)
    with _tracked(parameters, data) as tracked:
        with (
            tracked.measured() as measured,
            left_on_failure(model) as left,
            publishing(model, step="train", inputs={"tfrecord": data}, parameters=recorded(parameters)) as staging,
        ):
            left.clear(parameters.load_checkpoint_path)  # within publishing: no other process writes this output
            left.note({"inputs": {"tfrecord": data.digest}, "parameters": recorded(parameters)})
            folders = str(tfrecord.absolute()), str(staging.path), str(left.checkpoints)
            launcher.run(parameters.workers, worker_arguments(parameters, *folders), left.log, measured)
            results = json.loads((staging.path / TRAINING).read_text())
            shutil.copytree(left.checkpoints, staging.path / CHECKPOINT)
            shutil.copyfile(left.log, staging.path / LOG)
            staging.rows.update(trained_rows(results))
        complete = open_artifact(model)
        tracked.attempt(lambda run: complete_training(run, complete, data))
    # Of a step in a pod, another step finds the model in the storage that it is published to.
    trained = parameters.model_uri if is_uri(parameters.model_uri) else str(model)
    return _returned(staging.rows, trained, results, task)


def _train_in_storage(
    parameters: LaunchParameters, data: Artifact, launcher: Launcher, task: TaskDefinition
) -> Mapping[str, Any]:
    """Runs workers that read from and write to object storage; only the logs are fetched."""
    arguments = [
        *worker_arguments(parameters, parameters.tfrecord_uri, parameters.model_uri, ""),
        f"--stage_dir={STAGE}",
    ]
    tqdm.write(f"kfrec stop {parameters.model_uri} ends this training, which keeps its best epoch")
    with (
        failing_once(parameters.model_uri, parameters.run_id, tqdm.write),
        _tracked(parameters, data) as tracked,
        tempfile.TemporaryDirectory(prefix="kfrec-train-") as folder,
    ):
        with tracked.measured() as measured:
            launcher.run(parameters.workers, arguments, Path(folder) / LOG, measured)
        results = Path(folder) / "results"
        trained = fetch_artifact(parameters.model_uri, results, lambda path: path in (TRAINING_LOG, TRAINING))
        if trained.inputs != {"tfrecord": data.digest}:
            raise KfrecError(
                f"{parameters.model_uri}: was not trained on {data.path}; delete it, or run the pipeline again"
            )
        tracked.attempt(lambda run: complete_training(run, trained, data, parameters.tfrecord_uri))
        training = json.loads((results / TRAINING).read_text())
    return _returned(trained.rows, parameters.model_uri, training, task)


@contextmanager
def _tracked(parameters: LaunchParameters, data: Artifact) -> Iterator[TrainingRun]:
    """The MLflow run of a training, with its parameters and lineage."""
    title = f"{parameters.model_type} {data_name(data)}"

    def start(run: TrackedRun) -> None:
        log_start(run, recorded(parameters), data, parameters.tfrecord_uri)

    with training_run(parameters.experiment, parameters.run_id, title, start) as tracked:
        yield tracked


def _returned(
    rows: Mapping[str, int], checkpoints: str, results: Mapping[str, Any], task: TaskDefinition
) -> Mapping[str, Any]:
    metrics = final_metrics(results)
    shown = {f"{split} {m.label}": f"{split}_{m.name}" for m in task.metrics for split in MEASURED}
    scores = ", ".join(f"{label} {metrics[name]:.4f}" for label, name in shown.items() if metrics.get(name) is not None)
    speed = f"{metrics['train_samples_per_second']:,.0f} samples/s"
    summary = f"{scores}, {speed}; the model is at {checkpoints}"
    return {**rows, "trained_model": checkpoints, "metrics": metrics, "summary": summary}


def launcher_of(parameters: LaunchParameters) -> Launcher:
    """The launcher that the parameter ``launcher`` selects.

    Raises:
        KfrecError: for an MPIJob, the data is not in object storage, there is no cluster, or its settings are invalid.
    """
    if parameters.launcher == LOCAL:
        return LocalLauncher(parameters.transport)
    for name in ("tfrecord_uri", "model_uri"):
        if not is_uri(getattr(parameters, name)):
            raise KfrecError(
                f"launcher={parameters.launcher} needs a {name} in object storage, not "
                f"'{getattr(parameters, name)}': the pods of a job do not see this machine's folders; start the run on "
                "the cluster with kfrec submit, or use launcher=local"
            )
    from components.train.mpijob.job import in_cluster

    return in_cluster(parameters)
