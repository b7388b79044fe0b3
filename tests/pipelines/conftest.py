"""``kfrec run``, as tests of the whole workflow start it."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
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
def with_processes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], empty_database: Path
) -> Callable[..., Run]:
    """``kfrec run`` in this process, which starts one for each step."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)

    def run(workdir: Path, *arguments: str) -> Run:
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        if not workdir.exists():
            workdir.mkdir()
            shutil.copy(empty_database, workdir)
        status = main(["run", "--workdir", str(workdir), *arguments])
        return Run(status, *capfd.readouterr())

    return run


@pytest.fixture
def in_process(with_processes: Callable[..., Run]) -> Iterator[Callable[..., Run]]:
    """``kfrec run`` in this process, with its steps."""
    with steps_in_process():
        yield with_processes


def run_in_process(*words: str) -> Run:
    """The same for runs that several tests look at."""
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    with redirect_stderr(io.StringIO()) as said, redirect_stdout(io.StringIO()) as shown, steps_in_process():
        status = main(["run", *words])
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    return Run(status, shown.getvalue(), said.getvalue())
