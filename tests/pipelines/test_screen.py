import contextlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from components import registry
from pipelines.local import _failure
from pipelines.screen import StepOutput, table


def test_the_steps_add_up_to_the_total() -> None:
    steps = {name: {"seconds": seconds, "rows": 1} for name, seconds in (("download", 1.249), ("train", 33.351))}
    summary: dict[str, Any] = {
        "steps": steps,
        "metrics": {"test_auc": 0.8, "train_auc": 0.9, "test_logloss": 0.5, "train_samples_per_second": 1.0},
        "remarks": ["the model does not beat the baseline"],
        "registered": {"model": "m", "version": 1, "alias": "champion", "reason": "better"},
        "artifacts": {"report": "report.html"},
        "look": "kfrec ui",
    }
    lines = table(summary, time.monotonic() - 41.7, registry.task("click")).splitlines()
    seconds = {name: float(shown) for name, shown in (re.split(r"\s+", line)[:2] for line in lines[2:6])}
    assert list(seconds) == ["download", "train", "starting", "total"]
    assert round(sum(seconds.values()) - seconds["total"], 1) == seconds["total"]


def test_a_step_whose_process_is_killed_is_one_line(tmp_path: Path) -> None:
    """kfp.local says only that the step failed."""
    event = '{"kfrec": "started", "step": "tfrecord", "run_id": "1"}'
    code = f"import os; print({event!r}, flush=True); os.kill(os.getpid(), {signal.SIGKILL:d})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    with contextlib.closing(StepOutput(tmp_path / "steps.log")) as output:
        output.write(done.stdout)
        told = _failure(output)
    assert told.startswith(
        "tfrecord: its process ended without an error message, as one does that is killed, probably because"
    )
    assert "more memory" in told and "\n" not in told and str(tmp_path / "steps.log") in told
