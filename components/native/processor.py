"""What this machine's processor can do."""

from __future__ import annotations

from numba import config
from numba.core.codegen import get_host_cpu_features


def found() -> frozenset[str]:
    """What the processor can do, as LLVM names it."""
    listed = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
    return frozenset(word[1:] for word in listed.split(",") if word.startswith("+"))


_HERE = found()


def has(*features: str) -> bool:
    """Whether there are all of these, named as LLVM does.

    Numba's own NUMBA_CPU_FEATURES names others than the machine's, such as ``+sse4.2,+avx,+avx2,+fma``.
    """
    return _HERE.issuperset(features)
