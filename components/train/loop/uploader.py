"""Uploads checkpoints to object storage in the background: the newest one, and that of the best epoch.

The list file, which names both, is uploaded last, so it always names complete checkpoints. Each rank uploads its table
shards before the first rank saves the rest.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from components.artifacts.remote import ATTEMPTS, read_remote, require_room
from components.errors import KfrecError, Unreachable
from components.storage import Changed, Retry, Unavailable, below, fetch_file, open_store
from components.train.loop.listing import LIST, NAME, list_text, listed_names, write_list
from components.train.loop.shards import is_part, rank_of
from components.train.loop.stopping import STOP, request_stop
from components.train.results import CHECKPOINT
from components.training_log import LOG

_LOOK_SECONDS = 10.0  # between two looks for a request to stop
_FILE = re.compile(rf"({NAME}-\d+)\.")


class CheckpointUploader:
    """Uploads checkpoints from a background thread, one at a time; a newer checkpoint replaces a pending one.

    If the service stays unreachable for a checkpoint's retries, that checkpoint is skipped and training continues. A
    request to stop that lies among the uploaded checkpoints moves to the local ones.

    Args:
        log: the training log; its content at the time of a checkpoint is uploaded with the checkpoint.
        checkpoints: folder of the local ones.

    Raises:
        KfrecError: at the next ``send`` or at the end, if the service refused an upload.
    """

    def __init__(self, uri: str, log: Path, checkpoints: Path) -> None:
        self._log, self._checkpoints = log, checkpoints
        self._store, self._retry = open_store(uri), Retry(ATTEMPTS)
        self._news = threading.Condition()
        self._waiting: tuple[Path, str, str] | None = None
        self._closed = False
        self._failure: KfrecError | None = None
        self._sent: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="checkpoint uploader", daemon=True)

    def send(self, prefix: str, best: str = "") -> None:
        """Enqueues the checkpoint with this prefix and returns at once.

        Args:
            best: prefix of the best epoch's checkpoint; empty if none is kept.
        """
        with self._news:
            if self._failure is not None:
                raise self._failure
            self._waiting = Path(prefix), Path(best).name, self._log.read_text()
            self._news.notify()

    def __enter__(self) -> CheckpointUploader:
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
                self._news.wait_for(lambda: self._waiting is not None or self._closed, _LOOK_SECONDS)
                waiting, self._waiting = self._waiting, None
                if waiting is None and self._closed:
                    return
            if waiting is None:
                self._take_request()
                continue
            try:
                self._upload(*waiting)
            except Unreachable as error:
                print(f"a checkpoint was not uploaded ({error}); the training continues", flush=True)
            except KfrecError as error:
                with self._news:
                    self._failure = error
                return

    def _take_request(self) -> None:
        """Moves a request to stop to the local checkpoints; none is found while the service is away."""
        with suppress(KfrecError, Unavailable, Changed):
            self._store.stat(STOP)
            request_stop(str(self._checkpoints))
            self._store.remove(STOP)

    def _upload(self, prefix: Path, best: str, log: str) -> None:
        newest = prefix.name
        names = [newest] if best in ("", newest) else [best, newest]
        stored = set(self._retry.call(self._store.uri, self._store.names) or ())
        try:
            for name in names:
                files = sorted(prefix.parent.glob(f"{name}.*"))
                if f"{name}.index" not in {file.name for file in files}:
                    return  # newer checkpoints have replaced it
                for file in files:
                    if self._is_lacking(file.name, name == newest, stored):
                        self._call(self._store.write, file.name, file)
                        self._sent.add(file.name)
        except FileNotFoundError:
            return  # newer checkpoints have replaced it
        # Named after its checkpoint, so that a kill between two uploads cannot pair it with another checkpoint.
        self._call(self._store.write_text, f"{newest}.{LOG}", log)
        self._call(self._store.write_text, LIST, list_text(names))
        self._remove_others({*stored, *self._sent}, names)

    def _is_lacking(self, name: str, is_newest: bool, stored: Container[str]) -> bool:
        """Whether to upload a file: of the newest checkpoint the first rank's, of the best one what is not there yet.

        Files of an earlier attempt have the same names and may differ, so only what this process sent is there. The
        other ranks send their own shards; those of a training that had more ranks are sent here.
        """
        if rank_of(name):
            return not is_newest and name not in stored
        return is_newest or name not in self._sent

    def _remove_others(self, stored: Iterable[str], names: Sequence[str]) -> None:
        """Removes earlier checkpoints; other ranks may be sending shards of a later one."""
        for name in stored:
            of = _FILE.match(name)
            if of and of[1] not in names and _number(of[1]) < _number(names[-1]):
                self._call(self._store.remove, name)
                self._sent.discard(name)

    def _call(self, act: Callable[..., None], name: str, *args: str | Path) -> None:
        self._retry.call(self._store.url(name), act, name, *args)


def send_parts(uri: str, prefix: str, rank: int) -> None:
    """Uploads a rank's table shards; blocks until done.

    Args:
        rank: owner of the shards; not the first, whose ``CheckpointUploader`` uploads its own.
    """
    store, retry = open_store(uri), Retry(ATTEMPTS)
    path = Path(prefix)
    for file in sorted(path.parent.glob(f"{path.name}.*")):
        if is_part(file.name) and rank_of(file.name) == rank:
            retry.call(store.url(file.name), store.write, file.name, file)


def fetch_checkpoint(uri: str, folder: Path) -> None:
    """Fetches the newest checkpoint at ``uri``, and that of the best epoch, into ``folder``.

    Args:
        uri: of the checkpoints, or of the model that has them.

    Raises:
        KfrecError: there is none, it cannot be fetched, or the disk is too small.
    """
    listed = read_remote(uri, LIST)
    if listed is None:
        listed = read_remote(below(uri, CHECKPOINT), LIST)
        uri = below(uri, CHECKPOINT) if listed is not None else uri
    store, retry = open_store(uri), Retry(ATTEMPTS)
    if listed is None:
        raise KfrecError(f"{uri}: no checkpoint here; give a folder with a training's checkpoints")
    names = listed_names(listed.decode())
    log = f"{names[-1]}.{LOG}"
    stored = [(name, of[1]) for name in retry.call(store.uri, store.names) or () if (of := _FILE.match(name))]
    wanted = [name for name, of in stored if name == log or (of in names and not name.endswith(f".{LOG}"))]
    infos = [retry.call(store.url(name), store.stat, name) for name in wanted]
    require_room(folder, sum(info.size or 0 for info in infos))
    folder.mkdir(parents=True, exist_ok=True)
    for info in infos:
        local = folder / (LOG if info.name == log else info.name)
        local.unlink(missing_ok=True)
        fetch_file(store, retry, info, local)
    write_list(folder, names)


def _number(name: str) -> int:
    """The global step of a checkpoint."""
    return int(name.rpartition("-")[2])
