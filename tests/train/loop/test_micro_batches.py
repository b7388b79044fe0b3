"""Gradients that are summed over micro-batches, and gradients of bounded norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.models.layers.batch_normalization import BatchNormalization
from components.models.layers.global_batch import Batch, gathered_over_ranks, global_batch
from components.models.layers.weights import Weights
from components.parameters import build
from components.steps.catalog import worker_parameters
from components.train.loop.training_step import TrainingStep
from tests.train.dataset import samples, specification
from tests.train.loop.building import build_step

ROWS = 50
DRAWN = {"dropout_rate": "0.5", "user_dropout": "0.5"}


def _step(folder: Path, micro: int, rows: int, given: Mapping[str, str]) -> TrainingStep:
    settings = {"model_type": "din", "embedding_dim": "4", "optimizer": "sgd", "lr": "0.5", **given}
    parameters: Any = build(worker_parameters("din"), settings)
    return build_step(parameters, specification(folder), rows=rows, micro=micro)


def _trained(folder: Path, micro: int, rows: int = 0, /, **given: str) -> tuple[float, list[np.ndarray], np.ndarray]:
    """The loss of a step, the weights after it, and how many samples the metrics saw by label."""
    step = _step(folder, micro, rows, given)
    batch = {name: tf.constant(values, tf.int32) for name, values in samples(ROWS, seed=3).items()}
    loss = float(step.run(batch, np.array([4, 0], np.int32)))
    seen = step._metrics.counts.numpy().reshape(2, -1).sum(1)  # type: ignore[attr-defined]
    return loss, [variable.numpy() for variable in step._model.trainable_variables], seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, str], Any]:
    """What a step of the whole batch gives, by the rows of its signature and by XLA."""
    return cache(lambda rows, xla: _trained(tmp_path_factory.mktemp("whole"), 0, rows, **DRAWN, xla=xla))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("micro", "rows", "xla"),
    [(1, 0, "false"), (16, 0, "false"), (25, 0, "false"), (16, 64, "false"), (16, 64, "true")],
)
def test_a_step_of_micro_batches_is_the_step_of_the_whole_batch(
    tmp_path: Path, whole: Callable[[int, str], Any], micro: int, rows: int, xla: str
) -> None:
    loss, weights, seen = whole(rows, xla)
    own, ours, ours_seen = _trained(tmp_path, micro, rows, **DRAWN, xla=xla)
    assert own == pytest.approx(loss, rel=1e-5)
    for mine, theirs in zip(ours, weights, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(ours_seen, seen)
    assert seen.sum() == ROWS


@pytest.mark.slow
@pytest.mark.parametrize("micro", [0, 16])
def test_a_gradient_is_scaled_down_to_the_largest_norm(tmp_path: Path, micro: int) -> None:
    fresh = [variable.numpy() for variable in _step(tmp_path, micro, 0, {})._model.trainable_variables]

    def changes(**given: str) -> np.ndarray:
        after = _trained(tmp_path, micro, **given)[1]
        return np.concatenate([(end - begin).ravel() for end, begin in zip(after, fresh, strict=True)])

    free = changes(lr="1")
    norm = float(np.linalg.norm(free))
    clipped = changes(lr="1", clip_norm=f"{norm / 3:g}")
    np.testing.assert_allclose(clipped, free / 3, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(changes(lr="1", clip_norm=f"{norm * 2:g}"), free, rtol=1e-4, atol=1e-6)


def test_what_needs_the_whole_batch_is_refused_in_micro_batches() -> None:
    layer, x = BatchNormalization(Weights(1), 2), tf.ones([4, 2])
    with global_batch(Batch(is_whole=False)):
        with pytest.raises(KfrecError, match="micro_batch_size: moments is computed over the whole batch"):
            layer(x, training=True)
        with pytest.raises(KfrecError, match="micro_batch_size: items is computed over the whole batch"):
            gathered_over_ranks(x, "items")
        assert layer(x, training=False).shape == (4, 2)


def test_counts_that_are_read_alone_are_those_of_the_training() -> None:
    """SASRec learns every item of a history in training, and the target alone otherwise."""
    settings = {"model_type": "sasrec", "item_dim": "8", "global_batch_size": "4"}
    listed = [Feature("item", "int32", 9), Feature("items", "int32", 9, 5), Feature("label", "int8")]
    channels = {Channel.USER: (), Channel.TARGET: ("item",), Channel.POSITIVE: ("items",), Channel.LABEL: ("label",)}
    step = build_step(
        build(worker_parameters("sasrec"), settings), FeatureSpec({each.name: each for each in listed}, {}, channels)
    )
    batch = {"item": [1, 2], "items": [[0, 0, 3, 4, 5], [0, 0, 0, 0, 6]], "label": [1, 1]}
    inputs = {name: tf.constant(values, tf.int32) for name, values in batch.items()}
    assert step._count(inputs, tf.constant([0, 0])).numpy().tolist() == [6]


def test_counts_that_are_read_alone_leave_moving_averages_as_they_are() -> None:
    layer, x = BatchNormalization(Weights(1), 2), tf.constant([[1.0, 2.0], [3.0, 5.0]])
    with global_batch(Batch(has_statistics=False)):
        layer(x, training=True)
    assert int(layer.steps) == 0 and layer.mean.numpy().tolist() == [0, 0]
