"""A person ends a training early: by ``kfrec stop``, or by Ctrl-C at the terminal of the run."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.train.loop.stopping import STOP
from pipelines.cli import main
from pipelines.defaults import Pipeline
from pipelines.local import arguments_of
from pipelines.runs.lifecycle import offering_to_stop
from pipelines.runs.record import RunRecord, held
from tests.fakes.object_stores import BUCKET
from tests.waiting import wait_for


@pytest.fixture
def training(tmp_path: Path) -> Iterator[RunRecord]:
    """A run in its train step, of this process."""
    folder, pipeline = tmp_path / "20261128-100000-aaaa", Pipeline(model="din")
    (folder / "training" / "train" / ".model.partial").mkdir(parents=True)
    record = RunRecord(folder, pipeline, arguments_of(pipeline, {}, tmp_path), "")
    record.write()
    with held(folder):
        yield record


def request(record: RunRecord) -> Path:
    return record.folder / "training" / "train" / ".model.checkpoint" / STOP


def test_kfrec_stop_asks_the_training_that_runs(training: RunRecord, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop", "last", "--workdir", str(training.folder.parent)]) == 0
    assert request(training).is_file() and "its best epoch is kept" in capsys.readouterr().out


def test_kfrec_stop_of_a_training_in_object_storage_writes_beside_its_checkpoints(gcs_bucket: Any) -> None:
    assert main(["stop", f"gs://{BUCKET}/model"]) == 0
    assert gcs_bucket.blob(f"model/checkpoint/{STOP}").exists()


def test_a_run_that_does_not_train_cannot_be_stopped(training: RunRecord, capsys: pytest.CaptureFixture[str]) -> None:
    (training.folder / "training" / "train" / ".model.partial").rmdir()
    assert main(["stop", str(training.folder)]) == 2
    assert "no training runs here now; kfrec runs lists" in capsys.readouterr().err


class Terminal(io.StringIO):
    """The keyboard of a terminal."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Takes what a person types."""
    ours, theirs = os.openpty()
    monkeypatch.setattr("sys.stdin", Terminal(theirs))
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield ours
    signal.signal(signal.SIGINT, earlier)
    os.close(ours)
    os.close(theirs)


def test_the_first_ctrl_c_offers_to_keep_the_best_epoch(
    training: RunRecord, keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with offering_to_stop(training, lambda: True):
        os.kill(os.getpid(), signal.SIGINT)
        assert "press Enter to end the training now" in capsys.readouterr().err and not request(training).exists()
        os.write(keyboard, b"\n")
        wait_for(request(training).exists)


def test_the_second_ctrl_c_ends_the_run(training: RunRecord, keyboard: int) -> None:
    with pytest.raises(KeyboardInterrupt), offering_to_stop(training, lambda: True):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    os.write(keyboard, b"\n")  # for the thread that waits
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("keyboard")
def test_ctrl_c_ends_a_run_that_does_not_train(training: RunRecord) -> None:
    with pytest.raises(KeyboardInterrupt), offering_to_stop(training, lambda: False):
        os.kill(os.getpid(), signal.SIGINT)
