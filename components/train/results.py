"""The files in the results folder of a finished run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.artifacts.folder import listed_paths
from components.checks import PROFILE
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.side_tables import SIDE_TABLES
from components.feature_spec.spec import FILENAME
from components.feature_spec.vocabulary import VOCABULARY
from components.scoring.model import SAVED_MODEL, TABLES
from components.training_log import TRAINING, is_training_log, scores_of

if TYPE_CHECKING:
    from components.train.loop.progress import TrainingProgress

PARAMETERS = "parameters.json"
CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Outcome:
    """Which epoch of a training is exported, and why.

    Attributes:
        best: number of the best epoch; 0 if no epoch was judged.
        metric: label of the metric that judged, such as "validation AUC".
        is_judged: whether there were validation samples.
    """

    epochs: int
    planned: int
    best: int
    exported: int
    metric: str
    score: float | None
    is_judged: bool

    @property
    def stopped_early(self) -> bool:
        return self.epochs < self.planned

    def line(self) -> str:
        """The outcome for people."""
        if not self.is_judged:
            return f"no validation samples judge the epochs: epoch {self.exported}, the last one, is exported"
        if not self.best:
            return (
                f"{self.metric} is undefined after every epoch: epoch {self.exported}, the last one, is exported; "
                "validate on more samples"
            )
        early = f"stopped early after epoch {self.epochs}; " if self.stopped_early else ""
        line = f"{early}epoch {self.best} of {self.planned} is the best: {self.metric} {self.score:.4f}; "
        return line + (
            "exported" if self.exported == self.best else f"epoch {self.exported}, the last one, is exported"
        )


def best_epoch(epochs: Sequence[Mapping[str, Any]], name: str, higher_is_better: bool) -> int:
    """Number of the epoch with the best value, from 1; the first of equal ones, and 0 if no value is defined.

    Args:
        name: of the metric among them, such as "validation_auc"; None is an undefined value.
    """
    best, score = 0, 0.0
    for number, epoch in enumerate(epochs, 1):
        value = epoch.get(name)
        if value is not None and (not best or (value > score if higher_is_better else value < score)):
            best, score = number, value
    return best


def training_results(
    progress: TrainingProgress, outcome: Outcome, workers: int, train_rows: Sequence[int], validation_rows: int
) -> dict[str, Any]:
    """The content of training.json.

    Returns:
        ``epochs`` and the scores of the exported one; train_samples_per_second excluding validation, checkpoints and
        graph compilation; time_to_train in seconds, over all epochs excluding validation, as in the public examples.
    """
    speeds = [epoch["samples_per_second"] for epoch in progress.epochs]
    return {
        "epochs": progress.epochs,
        **scores_of(progress.epochs[outcome.exported - 1]),
        "best_epoch": outcome.best or None,
        "exported_epoch": outcome.exported,
        "stopped_early": outcome.stopped_early,
        "outcome": outcome.line(),
        "train_samples_per_second": len(speeds) / sum(1 / speed for speed in speeds),
        "time_to_train": sum(epoch["training_seconds"] for epoch in progress.epochs),
        "workers": workers,
        "seed": progress.seed,
        "steps": progress.global_step,
        "steps_per_epoch": progress.steps_per_epoch,
        "train_rows": train_rows[0],
        "trained_rows": sum(train_rows),
        "validation_rows": validation_rows,
    }


def trained_rows(results: Mapping[str, Any]) -> dict[str, int]:
    """Samples trained on, over all epochs, and samples that judged them, from the content of training.json."""
    rows = {"train": results["trained_rows"]}
    return rows | ({"validation": results["validation_rows"]} if results["validation_rows"] else {})


def require_own_results(folder: Path, log_filename: str) -> None:
    """Rejects a results folder whose files the results would overwrite, unless a training wrote them.

    Raises:
        KfrecError: the folder has a file with the name of a result, and no training log.
    """
    log = folder / log_filename
    if log.is_file() and is_training_log(log):
        return
    for name in (log_filename, SAVED_MODEL, TABLES, PARAMETERS, TRAINING, FILENAME, VOCABULARY, SIDE_TABLES, PROFILE):
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
    """Copies the feature specification and, if present, vocabulary, side tables and data profile next to the model."""
    shutil.copyfile(spec.folder / feature_spec, folder / FILENAME)
    for name in (VOCABULARY, SIDE_TABLES):
        for path in listed_paths(spec.folder, f"{name}/*"):
            (folder / name).mkdir(exist_ok=True)
            shutil.copyfile(path, folder / name / path.name)
    for path in listed_paths(spec.folder, PROFILE):
        shutil.copyfile(path, folder / PROFILE)
