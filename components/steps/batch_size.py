"""The workers of a training: the global batch that they share, and the pods that they fill."""

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


def require_whole_pods(workers: int, workers_per_pod: int) -> None:
    """Rejects a number of workers that does not fill whole pods.

    Raises:
        KfrecError: with the nearest valid numbers.
    """
    pods, rest = divmod(workers, workers_per_pod)
    if rest:
        nearest = f"{pods * workers_per_pod} or {(pods + 1) * workers_per_pod}" if pods else str(workers_per_pod)
        raise KfrecError(
            f"workers={workers} do not fill pods of workers_per_pod={workers_per_pod}; use {nearest} workers"
        )
