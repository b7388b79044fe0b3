"""CPU features of this machine."""

from __future__ import annotations

from numba import config
from numba.core.codegen import get_host_cpu_features


def features() -> frozenset[str]:
    """The CPU's features, by their LLVM names."""
    listed = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
    return frozenset(word[1:] for word in listed.split(",") if word.startswith("+"))


_HERE = features()


def has(*features: str) -> bool:
    """Whether the CPU has all these features, by their LLVM names.

    NUMBA_CPU_FEATURES, if set, replaces the machine's, as in ``+sse4.2,+crc32,+avx,+avx2,+fma``.
    """
    return _HERE.issuperset(features)
