"""Random-looking numbers of keys, to draw a sample of keys that does not depend on their order."""

from __future__ import annotations

import numpy as np


def mixed(keys: np.ndarray) -> np.ndarray:
    """Steele et al., "Fast Splittable Pseudorandom Number Generators", 2014 (SplitMix64).

    Args:
        keys: integers ``[n]``.

    Returns:
        uint64 ``[n]``, uniform for distinct keys.
    """
    mixed = keys.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
