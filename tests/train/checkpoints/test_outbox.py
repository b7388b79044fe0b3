"""Uploads of checkpoints while the object storage is away, or refuses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.errors import KfrecError
from components.storage import Retry, Unavailable
from components.storage.folder import FolderStore
from components.train.checkpoints import outbox
from components.train.checkpoints.outbox import LIST, CheckpointOutbox, fetch_checkpoint


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
    monkeypatch.setattr(outbox, "open_store", lambda uri: Unsteady(uri, 60.0))
    monkeypatch.setattr(outbox, "Retry", lambda attempts: Retry(attempts, sleep=lambda seconds: None))
    return folder


def send(box: CheckpointOutbox, folder: Path, step: int) -> None:
    """A checkpoint of a training, and its end, so that the next one does not take its place."""
    (folder / f"ckpt-{step}.index").write_text(f"weights of step {step}")
    box.send(str(folder / f"ckpt-{step}"))
    with box._news:
        while box._waiting is not None:
            box._news.wait(0.01)


def test_a_checkpoint_that_the_service_misses_is_left_out_and_the_next_one_is_there(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Unsteady, "error", Unavailable("503"), raising=False)
    log = tmp_path / "log.json"
    for steps, newest in (((1, 2), 1), ((2, 3), 3)):
        with CheckpointOutbox(str(there), log) as box:
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
    with pytest.raises(KfrecError, match="access denied"), CheckpointOutbox(str(there), log) as box:
        send(box, tmp_path, 2)
        box._thread.join(10)
        send(box, tmp_path, 3)
