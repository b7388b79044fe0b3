"""Files and folders that other users of the machine cannot plant, follow or change."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import tempfile
from pathlib import Path

from components.errors import KfrecError

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment of child processes: from Python 3.11 on, they import nothing that lies in the working directory."""


def open_own(path: Path | str, mode: int = 0o600) -> int:
    """A descriptor of a lock or working file, created if it is missing; a planted link is not followed.

    Raises:
        KfrecError: the file is a symbolic link.
        OSError: it cannot be opened.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise KfrecError(f"{path}: is a symbolic link, which somebody else may have made; remove it") from None


def require_inside(folder: Path, path: Path) -> None:
    """Rejects a link that leads out of its folder: whoever supplies a folder must not choose other files.

    Args:
        folder: the folder, which may itself be reached by links.

    Raises:
        KfrecError: the file, or a folder on the way, is such a link.
    """
    if not path.resolve().is_relative_to(folder.resolve()):
        raise KfrecError(f"{path}: is a link that leads out of {folder}; put the file itself there, as cp -L does")


def is_private(folder: Path) -> bool:
    """Whether only this user, or root, may change what is in a folder."""
    try:
        found = folder.stat()
    except OSError:
        return False
    others = stat.S_IWOTH if _is_own_group(found.st_gid) else stat.S_IWOTH | stat.S_IWGRP
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & others


def _is_own_group(group: int) -> bool:
    """Whether a group is the one that many systems give each user, with the user's name."""
    try:
        return grp.getgrgid(group).gr_name == pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False


def private_folder(name: str) -> Path:
    """This user's folder ``kfrec-NAME-UID`` for temporary files, created if it is missing.

    Raises:
        KfrecError: somebody else made it, or may change it.
    """
    folder = Path(tempfile.gettempdir()) / f"kfrec-{name}-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or not is_private(folder):
        raise KfrecError(f"{folder}: is not a folder of this user alone; remove it, or point TMPDIR to another one")
    return folder
