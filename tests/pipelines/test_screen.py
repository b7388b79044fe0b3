import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

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
        "refit": {"version": 2, "alias": "champion", "reason": "It is version 1."},
        "pair": "kfrec-recommender version 2 is the challenger: worse",
        "warnings": [],
        "artifacts": {"report": "report.html"},
        "look": "kfrec ui",
    }
    lines = table(summary, time.monotonic() - 41.7, registry.task("click")).splitlines()
    seconds = {name: float(shown) for name, shown in (re.split(r"\s+", line)[:2] for line in lines[2:6])}
    assert list(seconds) == ["download", "train", "starting", "total"]
    assert round(sum(seconds.values()) - seconds["total"], 1) == seconds["total"]
    assert "m version 1 is the champion: better" in lines and summary["pair"] in lines
    assert "published: version 2: It is version 1." in lines


@pytest.fixture
def output(tmp_path: Path) -> Iterator[StepOutput]:
    with contextlib.closing(StepOutput(tmp_path / "steps.log")) as made:
        yield made


def say(output: StepOutput, *events: Mapping[str, object]) -> None:
    output.write("".join(json.dumps(event) + "\n" for event in events))


_STARTED = {"kfrec": "started", "step": "tfrecord", "run_id": "1"}


def test_a_step_whose_process_is_killed_is_one_line(tmp_path: Path, output: StepOutput) -> None:
    """kfp.local says only that the step failed."""
    code = f"import os; print({json.dumps(_STARTED)!r}, flush=True); os.kill(os.getpid(), {signal.SIGKILL:d})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    output.write(done.stdout)
    told = _failure(output, done.returncode)
    assert told.startswith("tfrecord: its process was killed (SIGKILL), probably because the memory")
    assert "more memory" in told and "\n" not in told and str(tmp_path / "steps.log") in told


@pytest.mark.parametrize(
    ("status", "how"),
    [(-11, "was ended by SIGSEGV"), (139, "was ended by SIGSEGV"), (1, "ended with status 1"), (70, "with status 70")],
)
def test_only_a_process_that_was_killed_lacked_memory(status: int, how: str, output: StepOutput) -> None:
    say(output, _STARTED)
    told = _failure(output, status)
    assert told.startswith("tfrecord: its process ") and how in told and "memory" not in told


def test_an_exception_before_the_step_reports_is_read_from_its_own_output(output: StepOutput) -> None:
    earlier = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'of another step'\n"
    output.write(earlier)
    say(output, _STARTED, {"kfrec": "finished", "step": "tfrecord", "seconds": 1.0, "counts": {}})
    assert "of another step" not in _failure(output, 1)
    output.write(
        'Traceback (most recent call last):\n  File "b.py", line 2, in g\nValueError: no step\nW: tensorflow\n'
    )
    assert _failure(output, 1).startswith("a step: ValueError: no step, at b.py:2 in g; its output is in")


def test_what_follows_an_exception_does_not_hide_it(output: StepOutput) -> None:
    say(output, _STARTED, {"kfrec": "error", "step": "tfrecord", "message": "ValueError: bad", "crashed": True})
    output.write(
        "".join(f"W tensorflow: noise {i}\n" for i in range(100)) + "Traceback (most recent call last):\nOops\n"
    )
    assert _failure(output, 1) == f"tfrecord: ValueError: bad; its traceback is in {output.log}"


def test_every_warning_of_a_step_is_shown_when_it_comes_and_kept(
    output: StepOutput, capfd: pytest.CaptureFixture[str]
) -> None:
    warnings = [{"about": f"psi {name}", "message": f"data check: {name} is above"} for name in ("a", "b", "c")]
    say(output, _STARTED, *({"kfrec": "warning", "step": "tfrecord", **each} for each in warnings))
    shown = capfd.readouterr().err.splitlines()
    assert shown[1:] == [f"tfrecord   {each['message']}" for each in warnings]
    say(output, {"kfrec": "finished", "step": "tfrecord", "seconds": 1.0, "counts": {}})
    assert output.finished["tfrecord"]["warnings"] == warnings
