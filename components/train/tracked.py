"""Logs a training to MLflow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.artifacts import Artifact
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import TRAIN, VALIDATION
from components.parameters import parameters_of, plain
from components.steps.catalog import LaunchParameters
from components.steps.recorded import recorded
from components.tracking import Tracked, log_extensions, log_lineage, log_splits
from components.train.loop.log import read_log
from components.train.results import LOG, TRAINING, scores_of

# The results of a training, in addition to the scores of the exported epoch.
_SPEED = ("train_samples_per_second", "time_to_train")
# Names in the log, and their names as a series in MLflow.
_STEP_METRICS = {"loss": "loss", "samples/s": "samples_per_second", "step_time": "step_seconds"}
# Result files that this module reads.
LOGGED = (LOG, TRAINING)
# These identify the run and are not training parameters.
_NOT_LOGGED = ("experiment", "run_id", "tfrecord_uri", "model_uri")


def track_start(run: Tracked, parameters: LaunchParameters, data: Artifact, spec: FeatureSpec) -> None:
    """Logs parameters and lineage before the workers start, so that a killed training has them too.

    Args:
        run: an open run.
        parameters: of the step; a random seed is logged by ``track``.
        data: the records.
        spec: their feature specification.
    """
    values = {p.pipeline_name: plain(getattr(parameters, p.name)) for p in parameters_of(type(parameters))
             if p.name not in _NOT_LOGGED}  # fmt: skip
    if parameters.seed < 0:
        del values["train_seed"]
    run.log_parameters(values)
    log_lineage(run, data)
    log_splits(run, data, [split for split in (TRAIN, VALIDATION) if split in spec.sources], parameters.tfrecord_uri)
    log_extensions(run, recorded(parameters))


def track(run: Tracked, parameters: LaunchParameters, folder: Path) -> None:
    """Logs the actual seed, curves and results.

    Args:
        run: an open run.
        parameters: of the step.
        folder: the workers' results.
    """
    results = json.loads((folder / TRAINING).read_text())
    run.log_parameters({"train_seed": results["seed"]})
    run.log_series(_step_series(folder / LOG, results["steps_per_epoch"], parameters.log_steps))
    for epoch in results["epochs"]:
        known = {name: value for name, value in epoch.items() if name != "epoch" and value is not None}
        run.log_series([(epoch["epoch"], {f"epoch/{name}": value for name, value in known.items()})])
    chosen = {name: results[name] for name in ("best_epoch", "exported_epoch")}
    finals = final_metrics(results) | chosen | {"stopped_early": float(results["stopped_early"])}
    run.log_metrics({name: value for name, value in finals.items() if value is not None})
    for name in LOGGED:
        run.log_artifact(folder / name, "training")


def final_metrics(results: Mapping[str, Any]) -> dict[str, float | None]:
    """Scores of the exported epoch and the overall speed, from the content of training.json."""
    return scores_of(results["epochs"][results["exported_epoch"] - 1]) | {name: results[name] for name in _SPEED}


def _step_series(log: Path, steps_per_epoch: int, log_steps: int) -> list[tuple[int, dict[str, float]]]:
    """One point per logged loss."""
    series = []
    for record in read_log(log):
        if len(record["step"]) == 2 and not isinstance(record["step"], str):
            epoch, step = record["step"]
            if step % log_steps == 0 or step == steps_per_epoch:
                point = {name: record["data"][key] for key, name in _STEP_METRICS.items()}
                series.append(((epoch - 1) * steps_per_epoch + step, point))
    return series
