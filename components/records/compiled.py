"""Numba kernels: compiled once a machine, run without the GIL."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import IndexDataCacheFile


def _stamp() -> int:
    """Checksum of every kernel's source."""
    checksum = 0
    for path in sorted(Path(__file__).parent.glob("*.py")):
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return checksum


_STAMP = _stamp()


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles ``function`` on its first call and keeps the machine code on disk where there is a place for it.

    Numba keeps it beside the source or, where that is read-only, in the user's cache folder. By itself it would notice
    only edits of the file the function stands in; but kernels call kernels of other files, so the cache is keyed by
    all of them.
    """
    compiled = njit(nogil=True)(function)
    try:
        compiled.enable_caching()
    except RuntimeError:  # neither folder is writable: compile in every process
        return compiled
    place = compiled._cache._impl
    compiled._cache._cache_file = IndexDataCacheFile(place.locator.get_cache_path(), place.filename_base, _STAMP)
    return compiled
