"""What a command or a step costs before it does anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measuring import Figure, Plan, Report, seconds
from components.steps.catalog import STEPS


def measure(folder: Path, plan: Plan, report: Report) -> None:
    help_ = [_command(str(Path(sys.executable).with_name("kfrec")), "--help") for _ in range(plan.runs)]
    report.add(Figure("start-up", "kfrec --help", "s", help_, target=0.5, lower_is_better=True))
    python = [_command(sys.executable, "-c", "pass") for _ in range(plan.runs)]
    for step in STEPS:
        # Its modules, as the KFP component and the step's own command import them; work and storage come on top.
        program = f"import components.steps.command, components.{step}.step"
        values = [_command(sys.executable, "-c", program) for _ in range(plan.slow_runs)]
        report.add(Figure("start-up", f"imports of {step}", "s", values))
    report.add(Figure("start-up", "Python alone", "s", python))


def _command(*command: str) -> float:
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    return seconds(lambda: subprocess.run(command, check=True, capture_output=True, env=quiet))
