"""Numba kernels: compiled once per machine, run without the GIL."""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.core.caching import IndexDataCacheFile

from components.errors import KfrecError
from components.private import is_private, open_own

# Seconds.
_LONGEST_COMPILATION = 60


def _checksum(paths: Iterable[Path]) -> int:
    checksum = 0
    for path in paths:
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return checksum


_COMPONENTS = Path(__file__).parents[1]
# Folders whose kernels call one another.
_FOLDERS = ("native", "records")
_SHARED_KERNELS = [path for folder in _FOLDERS for path in sorted((_COMPONENTS / folder).glob("*.py"))]


class _MachineCode(IndexDataCacheFile):
    """Numba's cache files of one function, safe for concurrent processes.

    Numba numbers the files of a function's signatures and adds a file to its index before it writes the file. So two
    ranks that compile different signatures at once mix them up, and a rank that starts after an upgrade may read the
    old version's machine code. Here a file is named by its content and written before the index; at worst a process
    compiles again. A folder that others may write to is not read.

    Ranks that start together would all compile the same kernels. One of them compiles; the others wait for its file,
    for at most the time that compiling may take.
    """

    _lock: int | None = None

    def load(self, key: Any) -> Any:
        # Numba unpickles what it finds, and so runs it.
        if not is_private(Path(self._index_path).parent):
            return None
        code = super().load(key)
        if code is None and self._locked():
            code = super().load(key)
            if code is not None:
                self._unlock()
        return code

    def save(self, key: Any, data: Any) -> None:
        try:
            name = self._data_name(zlib.crc32(repr((self._source_stamp, key)).encode()))
            self._save_data(name, data)
            self._save_index(self._load_index() | {key: name})
        finally:
            self._unlock()

    def _load_index(self) -> Any:
        # An old index may hold types of a module that has moved, and is read before versions are compared.
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}

    def _locked(self) -> bool:
        """Whether this process is the one to compile; held until the file is saved, or the process ends."""
        if self._lock is not None:
            return True
        try:
            lock = open_own(f"{self._index_path}.lock", 0o644)
        except (OSError, KfrecError):
            return False
        until = time.monotonic() + _LONGEST_COMPILATION
        while time.monotonic() < until:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._lock = lock
                return True
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:  # a file system without locks
                break
        os.close(lock)
        return False

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _without_literals(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Stops Numba specialising a kernel on literal arguments."""
    return lambda args, kws: resolve([types.unliteral(kind) for kind in args], kws)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles ``function`` on its first call and caches the machine code on disk if a folder is writable.

    Numba stores it next to the source or, if that folder is read-only, in the user's cache folder. Numba alone would
    detect only edits of the function's own file; but kernels call functions of components.native and
    components.records, so the cache key covers the content of all these files.

    Kernels allocate nothing: that lets Numba leave out reference counts, whose atomic operations around every call cost
    more here than the work itself. A multiplication and an addition may be fused.
    """
    compiled = njit(nogil=True, _nrt=False, fastmath={"contract"})(function)
    compiled.get_call_template = _without_literals(compiled.get_call_template)
    try:
        compiled.enable_caching()
    except RuntimeError:  # neither folder is writable: compile in every process
        return compiled
    stamp = _checksum([*_SHARED_KERNELS, Path(function.__code__.co_filename)])
    cache = compiled._cache._impl
    compiled._cache._cache_file = _MachineCode(cache.locator.get_cache_path(), cache.filename_base, stamp)
    return compiled
