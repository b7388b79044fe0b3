"""The measured step is a training step, and its useful work is that of the products."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from benchmarks.drawn import drawn_batch
from benchmarks.measuring import Plan, Report
from benchmarks.stages import dlrm, electra, wide_and_deep
from benchmarks.token_records import specification as texts
from benchmarks.training import flops, measure_step, worker_step
from components.datasets.criteo.columns import CATEGORICAL
from components.datasets.criteo.preprocess import specification as criteo
from components.datasets.outbrain.features import specification as outbrain

DLRM: dict[str, Any] = dict(embedding_dim=4, bottom_mlp_dims=(8, 4), top_mlp_dims=(8, 1))
WIDE_AND_DEEP: dict[str, Any] = dict(embedding_dim=2, deep_hidden_units=(6, 3))
ELECTRA: dict[str, Any] = dict(
    encoder_layers=1, encoder_width=16, attention_heads=2, feed_forward_width=32, token_width=8, generator_share=0.5,
    micro_batch_size=0,
)  # fmt: skip
CASES = {
    "dlrm": (criteo(dict.fromkeys(CATEGORICAL, 9), {}), DLRM),
    "wide_and_deep": (outbrain(9, {}), WIDE_AND_DEEP),
    "electra": (texts(Path(), 32, 64), ELECTRA),
}


def test_a_product_is_counted_three_times_as_two_operations() -> None:
    assert flops([(5, 3, 2)], products=7) == 6 * (5 * 3 + 3 * 2 + 7)


def test_the_useful_work_of_the_models_of_tables() -> None:
    step = worker_step("dlrm", CASES["dlrm"][0], **DLRM)
    # 26 embeddings and the vector of the 13 numbers make 351 pairs.
    products = 13 * 8 + 8 * 4 + 351 * 4 + (4 + 351) * 8 + 8
    assert dlrm.flops_per_sample(step.parameters) == 6 * products
    spec = CASES["wide_and_deep"][0]
    step = worker_step("wide_and_deep", spec, **WIDE_AND_DEEP)
    # 13 ids and 3 lists; 13 numbers, which the wide part reads too.
    products = (16 * 2 + 13) * 6 + 6 * 3 + 3 + 13
    assert wide_and_deep.flops_per_sample(step.parameters, spec) == 6 * products


def test_the_useful_work_of_electra() -> None:
    step = worker_step("electra", CASES["electra"][0], **ELECTRA)
    # Of each of 32 positions: four products of the width, two of the feed-forward network, keys and values of the text.
    encoder, generator = 4 * 16 * 16 + 2 * 16 * 32 + 2 * 32 * 16, 4 * 8 * 8 + 2 * 8 * 16 + 2 * 32 * 8
    projection, head = 8 * 16, 16 * 16 + 16
    masked = 4 * (8 * 8 + 8 * 64)
    products = 32 * (encoder + generator + projection + head) + masked
    assert electra.flops_per_sample(step.parameters, 32, 64) == 6 * products


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_measured_beside_the_peak_and_trains(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.training.matmul_gflops", lambda: 1.0)
    spec, sizes = CASES[name]
    step, batch, report = worker_step(name, spec, **sizes), drawn_batch(spec, 40), Report()
    before = [tf.identity(variable) for variable in step.model.trainable_variables]
    measure_step(report, Plan(runs=3), name, step, batch, work=1e6)
    speed, share = report.figures
    assert (speed.unit, len(speed.values), share.target) == ("samples/s", 3, 0.6)
    assert share.values == pytest.approx([value * 1e6 / 1e9 for value in speed.values])
    after = step.model.trainable_variables
    assert any(bool(tf.reduce_any(one != other)) for one, other in zip(before, after, strict=True))
