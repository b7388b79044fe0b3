"""What scoring reads of the artifacts that it is given."""

from __future__ import annotations

from pathlib import Path

from components.artifacts import Artifact, open_input
from components.feature_spec.spec import FILENAME
from components.scoring.model import MODEL_FILES


def open_test_split(tfrecord: Path) -> Artifact:
    """Opens records, of which the test split and what describes it are here.

    Raises:
        KfrecError: see :func:`components.artifacts.open_input`.
    """
    return open_input(tfrecord, steps=("tfrecord",), reads=(FILENAME, "vocabulary", "test"))


def open_trained(model: Path) -> Artifact:
    """Opens a model, of which everything but the checkpoint and the log is here.

    Raises:
        KfrecError: see :func:`components.artifacts.open_input`.
    """
    return open_input(model, steps=("train",), reads=MODEL_FILES)
