"""Uploads checkpoints to object storage in the background.

The list file, which names the newest checkpoint, is uploaded last, so it always names a complete checkpoint. Each rank
uploads its table shards before the first rank saves the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from components.artifacts.remote import ATTEMPTS, read_remote, require_room
from components.errors import KfrecError, Unreachable
from components.storage import Retry, fetch_file, open_store
from components.train.checkpoints.kept import LIST
from components.train.checkpoints.parts import is_part, rank_of

LOG = "log.json"


class CheckpointOutbox:
    """Uploads checkpoints from a background thread, one at a time; a newer checkpoint replaces a pending one.

    If the service stays unreachable for a checkpoint's retries, that checkpoint is skipped and training continues.

    Args:
        uri: destination of the checkpoints.
        log: the training log; its content at the time of a checkpoint is uploaded with the checkpoint.

    Raises:
        KfrecError: at the next ``send`` or at the end, if the service refused an upload.
    """

    def __init__(self, uri: str, log: Path) -> None:
        self._log = log
        self._store, self._retry = open_store(uri), Retry(ATTEMPTS)
        self._news = threading.Condition()
        self._waiting: tuple[Path, str] | None = None
        self._closed = False
        self._failure: KfrecError | None = None
        self._sent: list[str] = []
        self._thread = threading.Thread(target=self._work, name="checkpoint outbox", daemon=True)

    def send(self, prefix: str) -> None:
        """Enqueues the checkpoint with this prefix and returns at once."""
        with self._news:
            if self._failure is not None:
                raise self._failure
            self._waiting = Path(prefix), self._log.read_text()
            self._news.notify()

    def __enter__(self) -> CheckpointOutbox:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        """Waits for pending uploads, also after an error: the training may resume from them."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join()
        if kind is None and self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while True:
            with self._news:
                while self._waiting is None and not self._closed:
                    self._news.wait()
                waiting, self._waiting = self._waiting, None
            if waiting is None:
                return
            try:
                self._upload(*waiting)
            except Unreachable as error:
                print(f"a checkpoint was not uploaded ({error}); the training continues", flush=True)
            except KfrecError as error:
                with self._news:
                    self._failure = error
                return

    def _upload(self, prefix: Path, log: str) -> None:
        files = [file for file in sorted(prefix.parent.glob(f"{prefix.name}.*")) if rank_of(file.name) == 0]
        try:
            for file in files:
                self._call(self._store.write, file.name, file)
        except FileNotFoundError:
            return  # newer checkpoints have replaced it
        # Named after its checkpoint, so that a kill between two uploads cannot pair it with another checkpoint.
        self._call(self._store.write_text, f"{prefix.name}.{LOG}", log)
        self._call(self._store.write_text, LIST, _listed(prefix.name))
        earlier, self._sent = self._sent, [*(file.name for file in files), f"{prefix.name}.{LOG}"]
        for name in earlier:
            if name not in self._sent:
                self._call(self._store.remove, name)
        if any(is_part(file.name) for file in files):
            for name in self._retry.call(self._store.uri, self._store.names) or []:
                if is_part(name) and _number(name) < _number(prefix.name):
                    self._call(self._store.remove, name)

    def _call(self, act: Callable[..., None], name: str, *given: str | Path) -> None:
        self._retry.call(self._store.url(name), act, name, *given)


def send_parts(uri: str, prefix: str, rank: int) -> None:
    """Uploads a rank's table shards; blocks until done.

    Args:
        uri: destination of the checkpoints.
        prefix: of the checkpoint.
        rank: owner of the shards; not the first, whose :class:`CheckpointOutbox` uploads its own.
    """
    store, retry = open_store(uri), Retry(ATTEMPTS)
    place = Path(prefix)
    for file in sorted(place.parent.glob(f"{place.name}.*")):
        if is_part(file.name) and rank_of(file.name) == rank:
            retry.call(store.url(file.name), store.write, file.name, file)


def fetch_checkpoint(uri: str, folder: Path) -> None:
    """Fetches the newest checkpoint at ``uri`` into ``folder``.

    Raises:
        KfrecError: there is none, it cannot be fetched, or the disk is too small.
    """
    store, retry = open_store(uri), Retry(ATTEMPTS)
    listed = read_remote(uri, LIST)
    if listed is None:
        raise KfrecError(f"{uri}: no checkpoint here; give a folder with a training's checkpoints")
    newest = listed.decode().split('"')[1]
    wanted = [name for name in retry.call(store.uri, store.names) or () if name.startswith(f"{newest}.")]
    infos = [retry.call(store.url(name), store.stat, name) for name in wanted]
    require_room(folder, sum(info.size or 0 for info in infos))
    folder.mkdir(parents=True, exist_ok=True)
    for info in infos:
        local = folder / (LOG if info.name == f"{newest}.{LOG}" else info.name)
        local.unlink(missing_ok=True)
        fetch_file(store, retry, info, local)
    (folder / LIST).write_text(_listed(newest))


def _number(name: str) -> int:
    """The global step of the checkpoint that a file belongs to."""
    return int(name.partition(".")[0].rpartition("-")[2])


def _listed(name: str) -> str:
    """TensorFlow's list of checkpoints, with one entry."""
    return f'model_checkpoint_path: "{name}"\nall_model_checkpoint_paths: "{name}"\n'
