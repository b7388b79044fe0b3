"""The train step: has workers train a model on the records, and publishes what they leave."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from components.artifacts import open_artifact, publishing
from components.feature_spec import load_feature_spec
from components.steps.catalog import LaunchParameters
from components.steps.parameter import as_plain
from components.tracking import tracked_run
from components.train.arguments import worker_arguments
from components.train.batch_size import require_divisible
from components.train.kept import kept_on_failure
from components.train.launch import Launcher, LocalLauncher
from components.train.results import CHECKPOINT, TRAINING
from components.train.tracked import track

LOG = "worker.log"


def run(
    parameters: LaunchParameters, *, tfrecord: Path, model: Path, launcher: Launcher | None = None
) -> Mapping[str, int]:
    """Trains a model.

    Args:
        parameters: of the training and of the launch.
        tfrecord: record files with their feature specification.
        model: receives the model; an earlier one stays until the new one is complete.
        launcher: where the workers run; this machine by default.

    Returns:
        Samples trained on, over all epochs, and samples of the test split.

    Raises:
        KfrecError: bad input; where training had begun, its checkpoints are kept and the line names their folder.
    """
    data = open_artifact(tfrecord)
    load_feature_spec(tfrecord, parameters.feature_spec)
    require_divisible(parameters.global_batch_size, parameters.workers)
    launcher = launcher or LocalLauncher(parameters.launcher)
    with (
        tracked_run(parameters.experiment, parameters.run_id) as tracked,
        kept_on_failure(model, parameters.load_checkpoint_path) as kept,
        publishing(model, step="train", inputs={"tfrecord": data}, parameters=as_plain(parameters)) as staging,
    ):
        arguments = worker_arguments(parameters, tfrecord.absolute(), staging.path, kept.checkpoints)
        launcher.run(parameters.workers, arguments, kept.log)
        results = json.loads((staging.path / TRAINING).read_text())
        shutil.copytree(kept.checkpoints, staging.path / CHECKPOINT)
        shutil.copyfile(kept.log, staging.path / LOG)
        staging.rows.update(train=results["train_rows"] * len(results["epochs"]), test=results["test_rows"])
        track(tracked, parameters, staging.path, data)
    return staging.rows
