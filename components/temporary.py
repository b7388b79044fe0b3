"""The folder of a run's temporary files, which is removed at its end or, if it was killed, by the next run."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import util
from pathlib import Path

from components.errors import KfrecError

_PREFIX = "kfrec-run-"
# A file in each of these folders: others of such a name are not ours.
_MARK = ".kfrec-temporary"
# A socket's address has at most 107 characters, of which multiprocessing adds /pymp-xxxxxxxx/listener-xxxxxxxx.
_LONGEST_FOR_SOCKETS, _SHORT = 107 - 32, "/tmp"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yields a folder below TMPDIR, which is TMPDIR in the block, and removes it at the end; and those of killed runs.

    Raises:
        KfrecError: no folder for temporary files can be written.
    """
    folder, lock = _locked_folder()
    given, found = os.environ.get("TMPDIR"), tempfile.tempdir
    try:
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        for other in folder.parent.glob(f"{_PREFIX}*"):
            _remove_abandoned(other)
        yield folder
    finally:
        tempfile.tempdir = found
        os.environ.pop("TMPDIR", None)
        if given is not None:
            os.environ["TMPDIR"] = given
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def make_socket_folder() -> None:
    """Makes multiprocessing's folder for sockets: in TMPDIR, or in /tmp where TMPDIR is too long for an address."""
    found = tempfile.gettempdir()
    try:
        if len(found) > _LONGEST_FOR_SOCKETS and os.access(_SHORT, os.W_OK):
            tempfile.tempdir = _SHORT
        util.get_temp_dir()
    finally:
        tempfile.tempdir = found


def _locked_folder() -> tuple[Path, int]:
    """A new folder, and the descriptor that locks it."""
    while True:
        try:
            # Multiprocessing removes its own folder when the process ends, and complains if that is gone.
            make_socket_folder()
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            (folder / _MARK).touch()
        except OSError as error:
            raise KfrecError(
                f"no folder for temporary files can be written ({error.strerror}); point TMPDIR to one that can"
            ) from None
        with suppress(FileNotFoundError):  # Another run took it for abandoned before it was locked.
            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder, lock
            os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    """Removes a folder that a run of this user made and no process holds the lock of."""
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid() or not (folder / _MARK).is_file():
            return
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(lock)
