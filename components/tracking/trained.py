"""What MLflow shows of a training, from the model that it wrote."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components.artifacts import Artifact
from components.artifacts.remote import fetch_artifact
from components.feature_spec import load_feature_spec
from components.feature_spec.spec import FILENAME, TRAIN, VALIDATION
from components.parameters import parameters_of
from components.steps.catalog import STEPS
from components.steps.training_parameters import MAY_CHANGE
from components.tracking.data import log_extensions, log_lineage, log_splits
from components.tracking.live import Series, began_now
from components.tracking.run import TrackedRun
from components.training_log import LOG, TRAINING, points_of, scores_of

# The results of a training, in addition to the scores of the exported epoch.
_SPEED = ("train_samples_per_second", "time_to_train")
# The tags with what is trained, and with the digest of the model whose training the run shows to its end.
_TRAINED, _COMPLETE = "kfrec.training", "kfrec.trained_model"
_SEED = "train_seed"
# These identify the run and are not training parameters.
_NOT_LOGGED = ("experiment", "run_id", "tfrecord_uri", "model_uri")
_FILES = (LOG, TRAINING)


def log_start(run: TrackedRun, parameters: Mapping[str, Any], data: Artifact, uri: str = "") -> None:
    """Logs parameters and lineage; before the workers start, so that a killed training has them too.

    A training goes on where the run shows one with the same parameters and data that has not ended; else it begins.

    Args:
        parameters: of the step, as its manifest records them; a seed that is drawn is logged by ``complete_training``.
        uri: URI of the records, if not the artifact's folder.
    """
    choices = {name: str(parameters[name]) for name in ("model_type", "task")}
    declared = [p for p in parameters_of(STEPS["train"].parameters(choices)) if p.name in parameters]
    trained = _trained({p.name: parameters[p.name] for p in declared}, data)
    if run.tags.get(_COMPLETE) or run.tags.get(_TRAINED) != trained:
        run.set_tags({_TRAINED: trained, _COMPLETE: "", **began_now()})
    logged = [p for p in declared if p.name not in _NOT_LOGGED]
    values = {p.pipeline_name: parameters[p.name] for p in logged}
    if values[_SEED] < 0:
        del values[_SEED]
    run.log_parameters(values)
    log_lineage(run, data)
    spec = load_feature_spec(data.path, str(parameters.get("feature_spec", FILENAME)))
    log_splits(run, data, [split for split in (TRAIN, VALIDATION) if split in spec.sources], uri)
    log_extensions(run, parameters)


def _trained(parameters: Mapping[str, Any], data: Artifact) -> str:
    """A digest of all that a training which resumes must share with the one before it.

    Args:
        parameters: that the step declares; a model in storage also records those of its worker.
    """
    fixed = {name: value for name, value in parameters.items() if name not in (*MAY_CHANGE, "load_checkpoint_path")}
    return hashlib.sha256(json.dumps([fixed, data.digest], sort_keys=True).encode()).hexdigest()[:16]


def _log_trained(run: TrackedRun, model: Artifact) -> None:
    """Logs the actual seed, the curves and the results of a training, each of which may be there already."""
    with _log_and_results(model) as folder:
        results = json.loads((folder / TRAINING).read_text())
        run.log_parameters({_SEED: results["seed"]})
        Series(run).log(points_of(folder / LOG, results, int(model.parameters["log_steps"])))
        chosen = {name: results[name] for name in ("best_epoch", "exported_epoch")}
        finals = final_metrics(results) | chosen | {"stopped_early": float(results["stopped_early"])}
        run.log_metrics({name: value for name, value in finals.items() if value is not None})
        for name in _FILES:
            run.log_artifact(folder / name, "training")
    run.set_tags({_COMPLETE: model.digest})


def complete_training(run: TrackedRun, model: Artifact, data: Artifact, uri: str = "") -> None:
    """Logs what the run lacks of the training of ``model``: at its end, or later if MLflow was away.

    A model that no train step has made, such as an adopted folder, shows none.

    Args:
        uri: URI of the records, if not the artifact's folder.
    """
    if model.parameters and run.tags.get(_COMPLETE) != model.digest:
        log_start(run, model.parameters, data, uri)
        _log_trained(run, model)


def final_metrics(results: Mapping[str, Any]) -> dict[str, float | None]:
    """Scores of the exported epoch and the overall speed, from the content of training.json."""
    return scores_of(results["epochs"][results["exported_epoch"] - 1]) | {name: results[name] for name in _SPEED}


@contextmanager
def _log_and_results(model: Artifact) -> Iterator[Path]:
    """A folder with the training log and the results, which a step in a pod does not fetch otherwise."""
    if all((model.path / name).is_file() for name in _FILES):
        yield model.path
        return
    with tempfile.TemporaryDirectory(prefix="kfrec-training-") as folder:
        yield fetch_artifact(model.data_uri, Path(folder) / "model", lambda path: path in _FILES).path
