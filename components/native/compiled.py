"""Numba kernels: compiled once per user and machine, run without the GIL."""

from __future__ import annotations

import fcntl
import os
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import config, njit

from components.private import is_private, open_own

_COMPONENTS = Path(__file__).parents[1]


def _cache_folder() -> Path | None:
    """This user's folder of machine code, below NUMBA_CACHE_DIR or ~/.cache; None without one.

    Numba unpickles the files of its cache, which runs them, so nobody else may write to the folder. Numba notices edits
    of a kernel's own file, but not of the kernels that it calls: the folder's name has the checksum of these files.
    """
    checksum = 0
    for path in sorted([*_COMPONENTS.glob("native/*.py"), *_COMPONENTS.glob("records/*.py")]):
        checksum = zlib.crc32(path.read_bytes(), checksum)
    try:
        parent = Path(config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        folder = parent.absolute() / f"kfrec-kernels-{os.geteuid()}-{checksum:08x}"
        folder.mkdir(0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return None
    return folder if is_private(folder) and os.access(folder, os.W_OK) else None


_FOLDER = _cache_folder()
if _FOLDER is not None:
    config.CACHE_DIR = str(_FOLDER)
_threads = threading.RLock()
_is_locked = False


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles ``function`` on its first call; caches the machine code if the user has a private folder for it.

    A multiplication and an addition may be fused.
    """
    compiled = njit(nogil=True, fastmath={"contract"}, cache=_FOLDER is not None)(function)
    if _FOLDER is not None:
        compiled.compile = _one_at_a_time(compiled.compile, _FOLDER / "lock")
    return compiled


def _one_at_a_time(compile: Callable[[Any], Any], lock: Path) -> Callable[[Any], Any]:
    """Compiles, or loads, in one process at a time.

    Numba numbers the files of a kernel's signatures: two ranks that save different ones at once would mix them up. And
    of ranks that start together, one compiles and the others load.
    """

    def locked(signature: Any) -> Any:
        global _is_locked
        with _threads:
            if _is_locked:  # compiling a kernel compiles those that it calls
                return compile(signature)
            descriptor = open_own(lock)
            try:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                _is_locked = True
                return compile(signature)
            finally:
                _is_locked = False
                os.close(descriptor)

    return locked
