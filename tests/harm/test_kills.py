"""Steps that are killed and stopped: nothing is lost, nothing goes on, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from components.artifacts import open_artifact
from components.lifetime import start_time
from components.steps.catalog import STEPS
from tests.harm.place import RAW, everything, folders_of, run_here
from tests.pipelines.in_process import steps_in_process
from tests.waiting import LONGEST, wait_for

pytestmark = pytest.mark.slow
_MARK = "KFREC_TEST_VICTIM"
_OPTIONS = {
    "download": ["--synthetic_users=9000"],
    "preprocess": ["--workers=2", "--reviews_per_partition=400"],
    "tfrecord": ["--workers=2", "--samples_per_shard=64"],
    "train": ["--global_batch_size=64", "--model_type=din", "--embedding_dim=4", "--epochs=20",
              "--checkpoint_steps=5", "--seed=1"],
    "predict": ["--beside=false"],
}  # fmt: skip
# A killed register step is in tests/register/test_promotion.py and a killed prediction in test_predictions.py.
_KILLED = ("preprocess", "tfrecord")
# Options that make a step last until it is ended; it finishes without them.
_SLOWER = {"predict": ["--prediction_batch_size=1"]}
_MADE = {"download": RAW, "preprocess": "parquet", "tfrecord": "tfrecord", "train": "trained", "evaluate": "evaluation",
         "register": "registration", "predict": "predictions"}  # fmt: skip


def alive(mark: str) -> list[int]:
    """The processes with this mark in their environment."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{_MARK}={mark}".encode() in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
        except OSError:
            continue
    return [pid for pid in found if start_time(pid)]


@contextmanager
def started(words: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command in a process group of its own, and the mark of all that it starts; none of them outlives the block."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        env=os.environ | {_MARK: mark, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process, mark
    finally:
        for pid in alive(mark):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()


def end(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Sends the signal, as a terminal does to the whole group with Ctrl-C; what the process said until its end."""
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    return process.communicate(timeout=LONGEST)[0]


def nothing_goes_on(mark: str, seconds: float = LONGEST) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not alive(mark):
            return True
        time.sleep(0.1)
    return False


def _catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has set a handler of the signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


def _wait_until_it_works(process: subprocess.Popen[str], step: str) -> None:
    """Until a step has begun to write its output; evaluate and register write only at their end."""
    if step in ("evaluate", "register"):
        wait_for(lambda: process.poll() is not None or _catches(process.pid, signal.SIGTERM))
        time.sleep(2.0)
        return
    writer = Path(f".{_MADE[step]}.partial") / "writer"
    while process.poll() is None:
        if writer.is_file() and writer.read_text() == f"{process.pid}\n":
            return
        time.sleep(0.005)


@pytest.mark.parametrize("step", [name for name in STEPS if name in _MADE and name != "train"])
def test_a_step_that_is_ended_loses_nothing_and_leaves_nothing(
    step: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    made = _MADE[step]
    words = [*folders_of(step, made), *_OPTIONS.get(step, ())]
    before = everything(here)
    for number in (*((signal.SIGKILL,) if step in _KILLED else ()), signal.SIGTERM):
        with started([f"components.{step}", *words, *_SLOWER.get(step, ())]) as (process, mark):
            _wait_until_it_works(process, step)
            assert process.poll() is None, "it was quicker than the signal"
            said = end(process, number)
            assert nothing_goes_on(mark), f"{alive(mark)} went on after {number.name}"
        if number == signal.SIGTERM:
            errors = [line for line in said.splitlines() if line.startswith("error:")]
            assert process.returncode == 128 + number and len(errors) == 1 and "Traceback" not in said, said[-2000:]
        now = everything(here)
        assert {name: now.get(name) for name in before} == before
        assert all(name.startswith(f".{made}.") for name in now.keys() - before.keys())
    done = run_here([step, *words], capfd)
    assert done.status == 0, done.said[-2000:]
    open_artifact(made).verify()
    assert [path.name for path in here.iterdir() if path.name.startswith(".")] == []


def test_a_training_goes_on_from_what_one_that_was_ended_kept(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kept = ".trained.checkpoint"
    words = ["components.train", *folders_of("train", "trained"), *_OPTIONS["train"]]
    for number, workers in ((signal.SIGTERM, 1), (signal.SIGKILL, 2)):
        with started([*words, f"--workers={workers}"]) as (process, mark):
            # The file that names the newest checkpoint is written last.
            wait_for(lambda: process.poll() is not None or (here / kept / "checkpoint").exists())
            assert process.poll() is None
            said = end(process, number)
            assert nothing_goes_on(mark)
        if number == signal.SIGTERM:
            (line,) = [line for line in said.splitlines() if line.startswith("error:")]
            assert "stopped by SIGTERM" in line and f"resume with load_checkpoint_path={here / kept}" in line
            words += [f"--load_checkpoint_path={kept}"]
    assert not (here / "trained").exists()
    with steps_in_process():
        done = run_here(["train", *words[1:], "--workers=1"], capfd)
    assert done.status == 0, done.said[-2000:]
    assert open_artifact("trained").step == "train" and not (here / kept).exists()
