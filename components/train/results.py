"""The files in the results folder of a finished run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.artifacts.folder import listed_paths
from components.checks import PROFILE
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.feature_spec.vocabulary import VOCABULARY
from components.scoring.model import SAVED_MODEL, TABLES
from components.train.loop.log import is_training_log

if TYPE_CHECKING:
    from components.train.checkpoints.standing import Standing

PARAMETERS = "parameters.json"
TRAINING = "training.json"
CHECKPOINT = "checkpoint"
LOG = "log.json"
# Prefixes of metric names; a training has either test or validation metrics.
MEASURED = ("train", "test", "validation")


def training_results(standing: Standing, workers: int, train_rows: int, measured: Mapping[str, int]) -> dict[str, Any]:
    """The content of training.json.

    Args:
        standing: of a finished training.
        workers: ranks that trained.
        train_rows: samples of an epoch.
        measured: "test" or "validation" to the number of samples evaluated after each epoch.

    Returns:
        ``epochs`` and the scores of the last one; train_samples_per_second excluding evaluation, checkpoints and graph
        compilation; time_to_train in seconds, over all epochs excluding evaluation, as in the public examples.
    """
    speeds = [epoch["samples_per_second"] for epoch in standing.epochs]
    return {
        "epochs": standing.epochs,
        **scores_of(standing.epochs[-1]),
        "train_samples_per_second": len(speeds) / sum(1 / speed for speed in speeds),
        "time_to_train": sum(epoch["training_seconds"] for epoch in standing.epochs),
        "workers": workers,
        "seed": standing.seed,
        "steps": standing.global_step,
        "train_rows": train_rows,
        **{f"{split}_rows": rows for split, rows in measured.items()},
    }


def scores_of(epoch: Mapping[str, Any]) -> dict[str, float | None]:
    """The task's metrics in an epoch's results, such as train_auc and test_auc."""
    prefixes = tuple(f"{split}_" for split in MEASURED)
    return {name: epoch[name] for name in epoch if name.startswith(prefixes) and name != "train_loss"}


def trained_rows(results: Mapping[str, Any]) -> dict[str, int]:
    """Samples trained on, over all epochs, and samples evaluated, from the content of training.json."""
    rows = {split: results[f"{split}_rows"] for split in MEASURED if f"{split}_rows" in results}
    return rows | {"train": results["train_rows"] * len(results["epochs"])}


def require_own_results(folder: Path, log_filename: str) -> None:
    """Rejects a results folder whose files the results would overwrite, unless a training wrote them.

    Raises:
        KfrecError: the folder has a file with the name of a result, and no training log.
    """
    log = folder / log_filename
    if log.is_file() and is_training_log(log):
        return
    for name in (log_filename, SAVED_MODEL, TABLES, PARAMETERS, TRAINING, FILENAME, VOCABULARY, PROFILE):
        if (folder / name).exists():
            raise KfrecError(
                f"results_dir {folder}: holds {name}, and no {log_filename} of a training; name another folder"
            )


def write_json(path: Path, body: Mapping[str, Any]) -> None:
    """Writes ``path`` atomically."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(body, indent=2, allow_nan=False) + "\n")
    partial.replace(path)


def copy_data_description(spec: FeatureSpec, feature_spec: str, folder: Path) -> None:
    """Copies the feature specification and, if present, the vocabulary and the data profile next to the model.

    Args:
        spec: of the training data.
        feature_spec: name of its file.
        folder: the results folder.
    """
    shutil.copyfile(spec.folder / feature_spec, folder / FILENAME)
    for path in listed_paths(spec.folder, f"{VOCABULARY}/*"):
        (folder / VOCABULARY).mkdir(exist_ok=True)
        shutil.copyfile(path, folder / VOCABULARY / path.name)
    for path in listed_paths(spec.folder, PROFILE):
        shutil.copyfile(path, folder / PROFILE)
