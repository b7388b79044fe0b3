"""``kfrec run``, as tests of the whole workflow start it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from tests.pipelines.in_process import steps_in_process


@dataclass(frozen=True)
class Run:
    status: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, Any]:
        assert self.status == 0, self.err[-3000:]
        return json.loads(Path(self.out.splitlines()[-1]).read_text())


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Run]]:
    """``kfrec run`` in this process, with its steps."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)

    def run(workdir: Path, *arguments: str) -> Run:
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        status = main(["run", "--workdir", str(workdir), *arguments])
        return Run(status, *capfd.readouterr())

    with steps_in_process():
        yield run
