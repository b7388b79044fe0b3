"""Files and folders that other users of the machine cannot plant, follow or change."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from components.errors import KfrecError

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment of child processes: from Python 3.11 on, they import nothing that lies in the working directory."""


@contextmanager
def modes_of(folder: Path) -> Iterator[int]:
    """Closes the files that are made in the block to others, but not to the group that a folder is set up for.

    A folder, or the nearest one above it that exists, is a group's if it is setgid and the group may write to it.

    Yields:
        The mode of a file; SQLite makes its own.
    """
    place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    shared = stat.S_ISGID | stat.S_IWGRP
    mask = 0o007 if place.stat().st_mode & shared == shared else 0o077
    earlier = os.umask(mask)
    try:
        yield 0o666 & ~mask
    finally:
        os.umask(earlier)


def require_writable(folder: Path, patterns: Iterable[str]) -> None:
    """Checks that this user may change what earlier runs, maybe of another user, left in a folder.

    Raises:
        KfrecError: one of the files or folders cannot be written.
    """
    for pattern in patterns:
        for path in folder.glob(pattern):
            if not os.access(path, os.W_OK):
                raise KfrecError(
                    f"{path}: belongs to another user, and this one may not write to it; choose another workdir, or "
                    f"let its owner make the folder a group's: chgrp -R GROUP {folder} && chmod -R g+rwX {folder} && "
                    f"find {folder} -type d -exec chmod g+s {{}} +"
                )


def open_own(path: Path | str, mode: int = 0o660) -> int:
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


def require_followed(folder: Path, path: Path, *, supplied: bool) -> None:
    """Rejects a link out of a folder by which whoever supplies the folder would choose a file of this user.

    A link is followed to a file of this user if the user, or root, made the link; and to files of root and of the
    folder's owner.

    Args:
        folder: the folder, which may itself be reached by links.
        supplied: whether the folder's files are what the user named it for. Links out of an artifact of others are
            never followed.

    Raises:
        KfrecError: the file, or a folder on the way, is such a link.
    """
    root, mine = folder.resolve(), {0, os.geteuid()}
    if path.resolve().is_relative_to(root):
        return
    owner, target = root.stat().st_uid, path.stat().st_uid
    makers = {link.lstat().st_uid for link in _links(root / path.relative_to(folder))}
    if target in {*mine, owner} and (target != os.geteuid() or makers <= mine) and (supplied or owner in mine):
        return
    raise KfrecError(
        f"{path}: is a link that leads out of {folder}, and it or its file is another user's; put the file itself "
        "there, as cp -L does"
    )


def _links(path: Path) -> Iterator[Path]:
    """The links on the way to an existing file, those that links lead to among them."""
    place, parts = Path(path.root), list(reversed(path.parts[1:]))
    while parts:
        part = parts.pop()
        place = place.parent if part == os.pardir else place / part
        if place.is_symlink():
            yield place
            target = place.readlink()
            parts.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
            place = Path(target.root) if target.is_absolute() else place.parent


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
