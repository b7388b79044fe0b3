"""The least time that published GPUs need for the kernels of a step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.gpu_model.kernels import Kernel

LAUNCH_SECONDS = 5e-6
"""What the host needs to launch a kernel: an assumption, of the order that TensorFlow's executor needs."""


@dataclass(frozen=True)
class Gpu:
    """Published peaks of a GPU.

    Attributes:
        name: of the product.
        bandwidth: of its memory, bytes/s.
        tf32, half: FLOP/s of its tensor cores on dense matrices.
    """

    name: str
    bandwidth: float
    tf32: float
    half: float


GPUS = (
    Gpu("A100 80 GB", 2.039e12, 156e12, 312e12),
    Gpu("H100 SXM", 3.35e12, 494.7e12, 989.4e12),
)


def seconds(kernels: Iterable[Kernel], gpu: Gpu) -> float:
    """A bound from below: each kernel moves its bytes, or computes its products, at the peak; or the host launches."""
    device, launches = 0.0, 0
    for kernel in kernels:
        peak = gpu.half if kernel.cost.half else gpu.tf32
        device += max(kernel.cost.moved / gpu.bandwidth, kernel.cost.of_products / peak)
        launches += kernel.cost.launches
    return max(device, launches * LAUNCH_SECONDS)
