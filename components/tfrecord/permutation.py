"""A shuffle with random access: a seeded bijection of [0, rows) in constant memory.

A Feistel network permutes the smallest square power of two that is not below ``rows``; a row that lands outside is sent
through again until it lands inside (cycle walking), which keeps the map one to one.
J. Black, P. Rogaway: Ciphers with Arbitrary Finite Domains, CT-RSA 2002.
"""

from __future__ import annotations

import numpy as np

from components.native.compiled import kernel

_ROUNDS = 6


class Permutation:
    """Maps rows to shuffled positions.

    Args:
        rows: number of rows.
        seed: words that choose the permutation.
    """

    def __init__(self, rows: int, *seed: int) -> None:
        self.rows = rows
        self._half_bits = np.uint64(max(1, -(-(rows - 1).bit_length() // 2)))
        self._keys = np.random.SeedSequence(seed).generate_state(_ROUNDS, np.uint64)

    def positions(self, first: int, count: int) -> np.ndarray:
        """Positions of the rows [first, first + count), int64 [count]."""
        positions = np.empty(count, np.int64)
        _positions(first, np.uint64(self.rows), self._half_bits, self._keys, positions)
        return positions


@kernel
def _positions(first, rows, half_bits, keys, positions):  # type: ignore[no-untyped-def]
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    for i in range(len(positions)):
        value = np.uint64(first + i)
        while True:
            left, right = value >> half_bits, value & mask
            for key in keys:
                left, right = right, left ^ (_mixed(right + key) & mask)
            value = left << half_bits | right
            if value < rows:
                break
        positions[i] = value


@kernel
def _mixed(word):  # type: ignore[no-untyped-def]
    """The finalizer of SplitMix64."""
    word = (word ^ word >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ word >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return word ^ word >> np.uint64(31)
