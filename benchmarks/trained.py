"""Runs the workflow's steps as commands, and returns the trained model's scores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components import registry
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.tasks import Scores


def options_of(values: Mapping[str, Any]) -> list[str]:
    """Parameters as options of a step's command."""
    return [f"--{name}={value}" for name, value in values.items()]


def run_step(name: str, *arguments: str) -> None:
    """Runs a step's command.

    Raises:
        KfrecError: the step failed; it has printed the reason.
    """
    done = subprocess.run([sys.executable, "-m", f"components.{name}", *arguments], stdout=subprocess.DEVNULL)
    if done.returncode:
        raise KfrecError(f"the step {name} failed")


def train(model: str, parameters: Mapping[str, Any], records: Path, folder: Path, seed: int) -> None:
    """Trains a model.

    Args:
        model: name.
        parameters: of the train step.
        records: folder of the records.
        folder: receives the model.
        seed: of the training.
    """
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder.parent / 'mlflow.db'}"
    given = {"model_type": model, "tfrecord": records, "model": folder, "seed": seed, **parameters}
    run_step("train", *options_of(given))


def score(model: str, records: Path, folder: Path) -> Scores:
    """The scores of the test samples by the model in ``folder``."""
    from components.scoring import load_model, score_split

    task = registry.task(registry.model(model).task)
    return score_split(load_feature_spec(records), load_model(folder), task.kept)


def trained(model: str, parameters: Mapping[str, Any], records: Path, folder: Path, seed: int) -> Scores:
    """Trains a model and scores the test samples; the arguments are those of ``train``."""
    train(model, parameters, records, folder, seed)
    return score(model, records, folder)
