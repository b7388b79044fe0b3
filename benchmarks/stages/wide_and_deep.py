"""One training step of Wide & Deep with the published sizes, against the peak of a matrix product."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.drawn import drawn_batch, outbrain
from benchmarks.measuring import Plan, Report
from benchmarks.training import flops, measure_step, worker_step
from components.feature_spec import FeatureSpec
from components.models.tabular import read_tabular
from components.models.wide_and_deep.model import width_of

SIZE = 16_384


def measure(folder: Path, plan: Plan, report: Report) -> None:
    spec = outbrain()
    step = worker_step("wide_and_deep", spec)
    measure_step(report, plan, "Wide & Deep", step, drawn_batch(spec, SIZE), flops_per_sample(step.parameters, spec))


def flops_per_sample(parameters: Any, spec: FeatureSpec) -> float:
    """See ``benchmarks.training.flops``."""
    channels = read_tabular(spec)
    widths = [width_of(feature, parameters.embedding_dim) for feature in (*channels.categorical, *channels.multihot)]
    numbers = len(channels.numerical)
    return flops([(sum(widths) + numbers, *parameters.deep_hidden_units, 1), (numbers, 1)])
