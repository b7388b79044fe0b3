"""A training step of ELECTRA's first phase against the peak of a matrix product."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.drawn import drawn_batch
from benchmarks.measuring import Plan, Report
from benchmarks.token_records import specification
from benchmarks.training import flops, measure_step, worker_step
from components.models.electra.masking import most_masked
from components.models.electra.model import generator_sizes
from components.models.layers.transformer import Sizes

# The base model of the first phase. A published step has 67,584 texts; of a step of 8, the optimizer's pass over all
# weights is a fifth.
LENGTH, VOCABULARY, SIZE = 128, 30_522, 32


def measure(folder: Path, plan: Plan, report: Report) -> None:
    spec = specification(folder, LENGTH, VOCABULARY)
    step = worker_step("electra", spec)
    work = flops_per_sample(step.parameters, LENGTH, VOCABULARY)
    measure_step(report, plan, "ELECTRA base, 128 tokens", step, drawn_batch(spec, SIZE), work)


def flops_per_sample(parameters: Any, length: int, vocabulary: int) -> float:
    """See ``benchmarks.training.flops``; the generator's head is multiplied at the masked positions alone."""
    tokens = parameters.embedding_width
    encoder, generator = parameters.sizes, generator_sizes(parameters)
    projections = sum(tokens * sizes.width for sizes in (encoder, generator) if sizes.width != tokens)
    each = _layers(encoder, length) + _layers(generator, length) + projections + encoder.width * (encoder.width + 1)
    masked = most_masked(length, parameters.masked_share)
    return flops([], length * each + masked * tokens * (generator.width + vocabulary))


def _layers(sizes: Sizes, length: int) -> int:
    """Multiply-adds of a position."""
    return sizes.layers * (4 * sizes.width**2 + 2 * sizes.width * sizes.feed_forward + 2 * length * sizes.width)
