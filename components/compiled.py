"""Numba kernels: compiled once a machine, run without the GIL."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.core.caching import IndexDataCacheFile


def _checksum(paths: Iterable[Path]) -> int:
    checksum = 0
    for path in paths:
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return checksum


_HERE = Path(__file__).parent
_SHARED_KERNELS = [
    Path(__file__),
    _HERE / "processor.py",
    *(path for folder in ("records", "models/kernels") for path in sorted((_HERE / folder).glob("*.py"))),
]


class _MachineCode(IndexDataCacheFile):
    """Numba's files of one function, which processes may write at the same time.

    Numba numbers the files of a function's signatures and names a file in its index before it writes it. So two ranks
    that compile different signatures at once exchange these, and one that starts after an upgrade may read the old
    version's machine code. Here a file is named by what it holds, and written first; at worst a process compiles again.
    """

    def save(self, key: Any, data: Any) -> None:
        name = self._data_name(zlib.crc32(repr((self._source_stamp, key)).encode()))
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})


def _whatever_the_values(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """Numba would compile a kernel once more for each combination of numbers that are written out in calls of it."""
    return lambda args, kws: resolve([types.unliteral(kind) for kind in args], kws)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles ``function`` on its first call and keeps the machine code on disk where there is a place for it.

    Numba keeps it beside the source or, where that is read-only, in the user's cache folder. By itself it would notice
    only edits of the file the function stands in; but kernels call those of components.records and
    components.models.kernels, so the cache is keyed by the content of all these.

    Kernels allocate nothing: that lets Numba leave out reference counts, whose atomic operations around every call
    cost more here than the work itself. A product and the sum it goes into may be one instruction.
    """
    compiled = njit(nogil=True, _nrt=False, fastmath={"contract"})(function)
    compiled.get_call_template = _whatever_the_values(compiled.get_call_template)
    try:
        compiled.enable_caching()
    except RuntimeError:  # neither folder is writable: compile in every process
        return compiled
    stamp = _checksum([*_SHARED_KERNELS, Path(function.__code__.co_filename)])
    place = compiled._cache._impl
    compiled._cache._cache_file = _MachineCode(place.locator.get_cache_path(), place.filename_base, stamp)
    return compiled
