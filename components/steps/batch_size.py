"""The global batch and the ranks that share it."""

from __future__ import annotations

from components.errors import KfrecError


def require_divisible(global_batch_size: int, size: int) -> None:
    """Rejects a global batch size that is not divisible by the number of ranks.

    Raises:
        KfrecError: with the nearest valid sizes.
    """
    if global_batch_size % size:
        lower, higher = global_batch_size // size * size, -(-global_batch_size // size) * size
        nearest = f"{lower} or {higher}" if lower else str(higher)
        raise KfrecError(
            f"global_batch_size {global_batch_size} cannot be divided evenly over {size} workers; use {nearest}"
        )
