"""The steps of ``kfrec run`` in the tests' process, which has TensorFlow, MLflow and KFP already.

As processes, as a user has them, six steps import these for seconds each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from kfp.dsl.executor import Executor
from kfp.local import logging_utils, subprocess_task_handler

from components.steps import command
from components.train.launching.launch import LocalLauncher
from components.train.launching.relay import Measured
from tests.train.in_process import run_worker

_run_workers = LocalLauncher.run


@contextmanager
def steps_in_process() -> Iterator[None]:
    """kfp.local runs the functions of the steps here; so does the train step with its worker, if there is only one."""
    with (
        mock.patch.object(subprocess_task_handler, "run_local_subprocess", _run_step),
        # kfp.local indents what a step prints by another print, which Numba does not know.
        mock.patch.object(logging_utils, "indented_print", nullcontext),
        mock.patch.object(command, "end_with_parent"),
        mock.patch.object(LocalLauncher, "run", _run_worker),
    ):
        yield


def _run_step(full_command: Sequence[str], env_vars: Mapping[str, str] | None = None) -> int:
    """Does what the command of a step does, and returns the exit status; kfrec sets no variables of a single step."""
    assert not env_vars
    *_, source, _, given, _, name = full_command
    module: dict[str, Any] = {}
    exec(compile(source, name, "exec", dont_inherit=True), module)
    try:
        Executor(executor_input=json.loads(given), function_to_execute=module[name]).execute()
    except SystemExit as left:
        assert isinstance(left.code, int)
        return left.code
    return 0


def _run_worker(launcher: LocalLauncher, workers: int, arguments: Sequence[str], log: Path, measured: Measured) -> None:
    if workers > 1:
        _run_workers(launcher, workers, arguments, log, measured)
    else:
        run_worker(arguments, log, measured)
