"""What this machine's processor can do, as far as the operating system lets this process use it."""

from __future__ import annotations

import ctypes
import platform

from numba import config
from numba.core.codegen import get_host_cpu_features

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILES = 158, 0x1023, 18  # of Linux on x86-64


def _may_use_tiles() -> bool:
    """Asks Linux for the matrix unit, whose registers a process only has on request."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILES) == 0


def found() -> frozenset[str]:
    """What the processor can do, as LLVM names it."""
    if config.CPU_FEATURES is None:
        words = get_host_cpu_features().split(",")
        if "+amx-tile" in words and not _may_use_tiles():
            words = [word.replace("+amx-", "-amx-") for word in words]
            # Numba keeps what it compiles without them apart from what it compiles with them.
            config.CPU_FEATURES = ",".join(words)
    else:
        words = config.CPU_FEATURES.split(",")
    return frozenset(word[1:] for word in words if word.startswith("+"))


_HERE = found()


def has(*features: str) -> bool:
    """Whether there are all of these, named as LLVM does.

    Numba's own NUMBA_CPU_FEATURES names others than the machine's, such as ``+sse4.2,+avx,+avx2,+fma``.
    """
    return _HERE.issuperset(features)
