"""One training step of DLRM with the published sizes, against the peak of a matrix product."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.drawn import criteo, drawn_batch
from benchmarks.measuring import Plan, Report
from benchmarks.training import flops, measure_step, worker_step
from components.datasets.criteo.columns import CATEGORICAL, NUMERICAL

SIZE = 16_384


def measure(folder: Path, plan: Plan, report: Report) -> None:
    spec = criteo()
    step = worker_step("dlrm", spec)
    measure_step(report, plan, "DLRM", step, drawn_batch(spec, SIZE), flops_per_sample(step.parameters))


def flops_per_sample(parameters: Any) -> float:
    """See ``benchmarks.training.flops``; the interaction multiplies each pair of vectors once."""
    vectors, width = 1 + len(CATEGORICAL), parameters.embedding_dim
    pairs = vectors * (vectors - 1) // 2
    bottom, top = (len(NUMERICAL), *parameters.bottom_mlp_dims), (width + pairs, *parameters.top_mlp_dims)
    return flops([bottom, top], pairs * width)
