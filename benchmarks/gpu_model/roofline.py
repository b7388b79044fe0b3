"""Roofline bound: lower bound of a step's time on published GPUs."""

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
        bandwidth: memory bandwidth, bytes/s.
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
    """Lower bound in seconds: each kernel is limited by peak bandwidth, peak FLOP/s or the host's launch time."""
    device, launches = 0.0, 0
    for kernel in kernels:
        peak = gpu.half if kernel.cost.half else gpu.tf32
        device += max(kernel.cost.moved / gpu.bandwidth, kernel.cost.of_products / peak)
        launches += kernel.cost.launches
    return max(device, launches * LAUNCH_SECONDS)
