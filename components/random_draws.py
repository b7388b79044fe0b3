"""Counter-based random numbers: a function of their purpose, not of the order of draws.

The draws of a user are a SplitMix64 sequence (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
OOPSLA 2014) that starts at a hash of the seed and the user; a draw is its element at (position, number). So samples do
not depend on partitions, on workers or on the order of the work.
"""

from __future__ import annotations

import hashlib

import numpy as np

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def draws(
    seed: int, stream: int, users: np.ndarray, positions: np.ndarray, first: np.ndarray, count: int
) -> np.ndarray:
    """Random 64-bit numbers.

    Args:
        seed: any integer from 0 to 2**63 - 1.
        stream: separates draws by purpose; from 0 to 255.
        users: int64 [n], a key of each user.
        positions: int [n], at least 0 and below 2**32.
        first: int [n], number of the first draw of each row at its position.
        count: draws per row.

    Returns:
        uint64 [n, count].
    """
    start = mixed(np.full(1, np.uint64((seed << 8 | stream) % 2**64)))
    start = mixed(users.astype(np.uint64) ^ start)
    numbers = first.astype(np.uint64)[:, None] + np.arange(count, dtype=np.uint64)
    counters = (positions.astype(np.uint64) << np.uint64(32))[:, None] + numbers
    return mixed(start[:, None] + (counters + np.uint64(1)) * GAMMA)


def mixed(x: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64, which spreads near uint64 numbers over all 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def hashes(keys: np.ndarray) -> np.ndarray:
    """uint64 ``[n]``, uniform for distinct integers ``[n]``: a sample of keys that does not depend on their order."""
    return mixed(keys.astype(np.int64).view(np.uint64) + GAMMA)


def fraction_of(*key: int | str) -> float:
    """A number of [0, 1) for a key of numbers and texts, such as a seed and a name: the same on every machine."""
    digest = hashlib.blake2b("\n".join(map(str, key)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
