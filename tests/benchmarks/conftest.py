"""Steps of a benchmark without processes of their own, each of which would import TensorFlow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from components.steps.command import command
from components.train import step as train_step
from tests.train.in_process import InProcess


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a step as ``run_step`` of the benchmarks does, in this process; the train step trains here, too."""

    def run(name: str, *arguments: str) -> None:
        alone = ["--workers=1"] if name in ("preprocess", "tfrecord") else []
        assert command(name, [*arguments, *alone]) == 0

    monkeypatch.setattr(train_step, "launcher_of", lambda parameters: InProcess())
    return run
