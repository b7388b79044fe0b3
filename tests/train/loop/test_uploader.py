"""Uploads of checkpoints while the object storage is away, or refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import KfrecError
from components.storage import Retry, Unavailable
from components.storage.folder import FolderStore
from components.train.loop import uploader
from components.train.loop.listing import LIST, read_list
from components.train.loop.stopping import request_stop, take_request
from components.train.loop.uploader import CheckpointUploader, fetch_checkpoint
from tests.waiting import LONGEST, wait_for


class Unsteady(FolderStore):
    """A folder that fails to write one checkpoint."""

    error: Exception

    def write(self, name: str, source: Path) -> None:
        if name.startswith("ckpt-2."):
            raise self.error
        super().write(name, source)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    monkeypatch.setattr(uploader, "open_store", lambda uri: Unsteady(uri, 60.0))
    monkeypatch.setattr(uploader, "Retry", lambda attempts: Retry(attempts, sleep=lambda seconds: None))
    return folder


def send(box: CheckpointUploader, folder: Path, step: int, best: int = 0) -> None:
    """A checkpoint of a training, and its end, so that the next one does not take its place."""
    (folder / f"ckpt-{step}.index").write_text(f"weights of step {step}")
    box.send(str(folder / f"ckpt-{step}"), str(folder / f"ckpt-{best}") if best else "")
    with box._news:
        while box._waiting is not None:
            box._news.wait(0.01)


def test_a_checkpoint_that_the_service_misses_is_left_out_and_the_next_one_is_there(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Unsteady, "error", Unavailable("503"), raising=False)
    log = tmp_path / "log.json"
    for steps, newest in (((1, 2), 1), ((2, 3), 3)):
        with CheckpointUploader(str(there), log, tmp_path) as box:
            for step in steps:
                log.write_text(f"log of step {step}")
                send(box, tmp_path, step)
        fetch_checkpoint(str(there), tmp_path / f"fetched-{newest}")
        fetched = {path.name: path.read_text() for path in (tmp_path / f"fetched-{newest}").iterdir()}
        del fetched[LIST]
        assert fetched == {f"ckpt-{newest}.index": f"weights of step {newest}", "log.json": f"log of step {newest}"}
    assert "ckpt-2.index: gave up after 6 tries (503)" in capfd.readouterr().out


def test_a_service_that_refuses_a_checkpoint_ends_the_training(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unsteady, "error", KfrecError("access denied"), raising=False)
    log = tmp_path / "log.json"
    log.write_text("")
    with pytest.raises(KfrecError, match="access denied"), CheckpointUploader(str(there), log, tmp_path) as box:
        send(box, tmp_path, 2)
        box._thread.join(LONGEST)
        send(box, tmp_path, 3)


@pytest.fixture
def steady(there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(uploader, "open_store", lambda uri: FolderStore(uri, 60.0))
    (tmp_path / "log.json").write_text("")
    return there


def checkpoints(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("ckpt-*") if not path.name.endswith(".json")}


def test_the_best_epochs_checkpoint_stays_beside_the_newest_one(steady: Path, tmp_path: Path) -> None:
    with CheckpointUploader(str(steady), tmp_path / "log.json", tmp_path) as box:
        for step, best in ((1, 1), (2, 1), (3, 1)):
            send(box, tmp_path, step, best)
    assert checkpoints(steady) == {"ckpt-1.index", "ckpt-3.index"}
    fetch_checkpoint(str(steady), tmp_path / "fetched")
    assert checkpoints(tmp_path / "fetched") == {"ckpt-1.index", "ckpt-3.index"}
    assert read_list(tmp_path / "fetched") == ["ckpt-1", "ckpt-3"]  # the newest last
    with CheckpointUploader(str(steady), tmp_path / "log.json", tmp_path) as box:
        send(box, tmp_path, 4, best=4)
    assert checkpoints(steady) == {"ckpt-4.index"} and read_list(steady) == ["ckpt-4"]


def test_a_best_checkpoint_whose_turn_a_newer_one_took_is_uploaded_with_it(steady: Path, tmp_path: Path) -> None:
    box = CheckpointUploader(str(steady), tmp_path / "log.json", tmp_path)
    for step in (1, 2):  # the thread does not run yet, so the second one takes the first one's place
        (tmp_path / f"ckpt-{step}.index").write_text(f"weights of step {step}")
        (tmp_path / f"ckpt-{step}.table-0.1.npy").write_text("another rank's shard")
        box.send(str(tmp_path / f"ckpt-{step}"), str(tmp_path / "ckpt-1"))
    with box:
        pass
    # The other rank sends its own shard of the newest one.
    assert checkpoints(steady) == {"ckpt-1.index", "ckpt-1.table-0.1.npy", "ckpt-2.index"}


def test_a_best_checkpoint_that_is_gone_leaves_the_list_as_it_was(steady: Path, tmp_path: Path) -> None:
    with CheckpointUploader(str(steady), tmp_path / "log.json", tmp_path) as box:
        send(box, tmp_path, 1, best=1)
        send(box, tmp_path, 3, best=2)  # of epoch 2 nothing is left: a better one has replaced it
    assert read_list(steady) == ["ckpt-1"] and "ckpt-1.index" in checkpoints(steady)


def test_a_request_to_stop_moves_to_the_checkpoints_of_this_machine(
    steady: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploader, "_LOOK_SECONDS", 0.01)
    here = tmp_path / "here"
    with CheckpointUploader(str(steady), tmp_path / "log.json", here):
        assert not take_request(here)
        request_stop(str(steady))
        wait_for(lambda: take_request(here))
    assert not take_request(steady)
