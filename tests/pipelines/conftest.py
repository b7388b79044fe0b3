"""``kfrec run``, as tests of the whole workflow start it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main


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
def in_process(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """``kfrec run`` in this process; each step is a process of its own."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)

    def run(workdir: Path, *arguments: str) -> Run:
        status = main(["run", "--workdir", str(workdir), *arguments])
        return Run(status, *capfd.readouterr())

    return run
