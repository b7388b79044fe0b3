"""The temporary folder of a run; leftovers of its steps are removed at its end, or by the next run."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.errors import KfrecError

_PREFIX = "kfrec-run-"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yields a folder below TMPDIR and removes it at the end; also removes those of killed runs.

    Raises:
        KfrecError: no folder for temporary files can be written.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError as error:
        raise KfrecError(
            f"no folder for temporary files can be written ({error.strerror}); point TMPDIR to one that can"
        ) from None
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for other in folder.parent.glob(f"{_PREFIX}*"):
            _remove_abandoned(other)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    """Removes a folder of this user that no process holds the lock of."""
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
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
