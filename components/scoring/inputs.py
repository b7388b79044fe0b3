"""The parts of the input artifacts that scoring reads."""

from __future__ import annotations

from pathlib import Path

from components.artifacts import Artifact, open_input
from components.checks import PROFILE
from components.feature_spec.spec import FILENAME
from components.scoring.model import MODEL_FILES


def open_test_split(tfrecord: Path) -> Artifact:
    """Opens records and stages their test split and its description.

    Raises:
        KfrecError: see :func:`components.artifacts.open_input`.
    """
    return open_input(tfrecord, steps=("tfrecord",), reads=(FILENAME, PROFILE, "vocabulary", "test"))


def open_trained(model: Path) -> Artifact:
    """Opens a model and stages everything but the checkpoint and the log.

    Raises:
        KfrecError: see :func:`components.artifacts.open_input`.
    """
    return open_input(model, steps=("train",), reads=MODEL_FILES)
