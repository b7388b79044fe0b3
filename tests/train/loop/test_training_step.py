"""A step of one rank, taken by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.feature_spec.positional import with_weights
from components.parameters import build
from components.steps.catalog import worker_parameters
from components.tasks.binary.streaming import BINS
from components.train.loop.ranks import Alone, Ranks
from components.train.loop.training_step import TrainingStep
from components.train.loop.transfer import Shared, Transfer
from tests.train.dataset import LONG, samples, specification
from tests.train.loop.building import build_step


class Twins(Alone):
    """Two ranks that have the same samples; notes what is summed, by name."""

    size = 2

    def __init__(self) -> None:
        self.summed: list[str] = []

    def sum(self, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        self.summed.append(name)
        return [2.0 * tensor for tensor in tensors]

    def sum_slices(self, slices: tf.IndexedSlices, name: str) -> tf.IndexedSlices:
        return tf.IndexedSlices(2.0 * slices.values, slices.indices, slices.dense_shape)


def make_step(
    tmp_path: Path,
    ranks: Ranks,
    rows: int = 0,
    model_type: str = "din",
    way: Callable[[Mapping[str, tf.TensorSpec]], Transfer] = Shared,
    **given: str,
) -> TrainingStep:
    """A step of a small model, of the one that is traced soonest where it does not matter which one it is."""
    settings = {"model_type": model_type, "embedding_dim": "4", "lr": "0", **given}
    parameters: Any = build(worker_parameters(model_type), settings)
    return build_step(parameters, specification(tmp_path), ranks=ranks, rows=rows, way=way)


def batch_of(rows: int, seed: int = 3) -> dict[str, tf.Tensor]:
    return {name: tf.constant(values, tf.int32) for name, values in samples(rows, seed=seed).items()}


def loss_and_counts(step: TrainingStep, batch: Mapping[str, tf.Tensor], at: int, first: int = 0) -> np.ndarray:
    """The sum of the losses of a batch's samples, which are those from ``first`` on of a step."""
    return step.run(batch, np.array([at, first], np.int32)).numpy() * len(batch["label"])


# The user's dropout draws once a sample, the classifier's 200 and 80 times.
@pytest.mark.slow
@pytest.mark.parametrize("xla", ["false", "true"])
def test_samples_have_the_same_masks_in_one_batch_and_in_several(tmp_path: Path, xla: str) -> None:
    step = make_step(tmp_path, Alone(), dropout_rate="0.5", user_dropout="0.5", xla=xla)
    whole, at = batch_of(50), 7
    parts = [{name: values[begin:end] for name, values in whole.items()} for begin, end in ((0, 13), (13, 50))]
    expected = loss_and_counts(step, whole, at)
    found = loss_and_counts(step, parts[0], at, 0) + loss_and_counts(step, parts[1], at, 13)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    elsewhere = loss_and_counts(step, parts[0], at, 0) + loss_and_counts(step, parts[1], at, 0)
    assert abs(elsewhere - expected) > 1e-3 * expected


@pytest.mark.slow
def test_xla_draws_the_masks_of_tensorflow_and_every_step_others(tmp_path: Path) -> None:
    found = []
    for xla in ("false", "true"):
        step = make_step(tmp_path, Alone(), dropout_rate="0.5", xla=xla)
        found.append([losses.numpy()[0] for losses in step.steps(batch_of(50) for _ in range(3))])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert len({float(loss) for loss in found[0]}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "lazy_adam"])
def test_filling_a_batch_up_changes_neither_losses_nor_metrics(tmp_path: Path, optimizer: str) -> None:
    batches = [batch_of(count, seed=count) for count in (64, 50, 1, 64)]
    losses, histograms = [], []
    for rows in (0, 64):
        # SIM has several losses, with a count of each.
        given: dict[str, Any] = {"optimizer": optimizer, "lr": "0.01", "long_seq_length": str(LONG)}
        step = make_step(tmp_path, Alone(), rows, "sim", **given)
        losses.append([step.run_in_parts(batch).numpy() for batch in batches])
        (counts,) = step._metrics.totals(Alone())
        histograms.append(counts.numpy().reshape(2, BINS))
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    labels = np.concatenate([batch["label"].numpy() for batch in batches])
    for counts in histograms:
        np.testing.assert_array_equal(counts.sum(1), np.bincount(labels))
    # A larger product rounds differently, so that a logit may cross the boundary of a bin, but few cross any one.
    crossed = np.abs(np.cumsum(histograms[1] - histograms[0], axis=1))
    assert crossed.max() <= 3


def test_filled_up_batches_have_one_shape(tmp_path: Path) -> None:
    step = make_step(tmp_path, Alone(), 64)
    for count in (64, 50, 0):
        step.run(batch_of(count))
    assert step._differentiate.experimental_get_tracing_count() == 1
    (traced,) = step._differentiate._list_all_concrete_functions()
    assert {shape.shape[0] for shape in traced.structured_input_signature[0][0].features.values()} == {64}


# SIM's auxiliary loss counts what is in the histories, so that every batch has other counts; DIN is traced sooner.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_type", "given"), [("sim", {"long_seq_length": str(LONG)}), ("din", {"xla": "true"})], ids=["sim", "xla"]
)
def test_counts_are_summed_along_with_the_gradients_of_the_step_before(
    tmp_path: Path, model_type: str, given: dict[str, Any]
) -> None:
    sizes, ranks = (40, 50, 7, 50), Twins()
    apart = make_step(tmp_path, Alone(), 64, model_type, lr="0.01", **given)
    positions = [np.array([step, 0], np.int32) for step in range(4)]
    expected = [
        apart.run_in_parts(batch_of(rows, seed=rows), at).numpy() for rows, at in zip(sizes, positions, strict=True)
    ]
    together = make_step(tmp_path, ranks, 64, model_type, lr="0.01", **given)
    found = [losses.numpy() for losses in together.steps((batch_of(rows, seed=rows) for rows in sizes), positions)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # Summed by name: once as it is, before the first step, and once while the graph of all steps is traced.
    assert ranks.summed == ["counts", "gradients"]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 8])
def test_a_sample_of_weight_2_is_learned_as_the_sample_twice(tmp_path: Path, rows: int) -> None:
    spec = with_weights(specification(tmp_path), "weight", is_list=False)
    parameters: Any = build(
        worker_parameters("sim"),
        {
            "model_type": "sim",
            "embedding_dim": "4",
            "long_seq_length": str(LONG),
            "dropout_rate": "0",
            "user_dropout": "0",
        },
    )
    batch = batch_of(5)
    for weights, places in (([1.0, 2.0, 0.0, 1.0, 1.0], [0, 1, 1, 3, 4]), ([1.0] * 5, range(5))):
        weighted = build_step(parameters, spec, rows=rows).run({**batch, "weight": tf.constant(weights)})
        plain = build_step(parameters, specification(tmp_path)).run(
            {name: tf.gather(values, list(places)) for name, values in batch.items()}
        )
        assert weighted.numpy() == pytest.approx(plain.numpy(), rel=1e-5)
