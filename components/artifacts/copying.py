"""Bringing a file into an artifact: its own blocks or shared ones that are copied on write, never a shared inode."""

from __future__ import annotations

import fcntl
import shutil
from contextlib import suppress
from pathlib import Path

_FICLONE = 0x40049409  # linux/fs.h; the fcntl module has no name for it.


def copy_file(source: Path, target: Path) -> None:
    """Copies ``source`` to ``target``, as a reflink where the file system has those (XFS, Btrfs, and others).

    A hard link would be cheaper and wrong: whatever is written to the one name later shows under the other.

    Raises:
        OSError: the source cannot be read or the target not written.
    """
    with suppress(OSError), source.open("rb") as original, target.open("wb") as copy:
        fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
        return
    shutil.copyfile(source, target)
