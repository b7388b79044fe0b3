"""Batch normalisation against Keras and its formula, on one rank and on real ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from components.errors import KfrecError
from components.models.layers.batch_normalization import BatchNormalization
from components.models.layers.global_batch import Batch, global_batch
from components.models.layers.weights import Weights
from components.models.ops.choice import training_back_end
from components.train.loop.ranks import Ranks

ROWS, UNITS = 12, 3


def _values(rows: int = ROWS) -> np.ndarray:
    random = np.random.default_rng(5)
    return (random.normal(size=(rows, UNITS)) * (1, 2, 5) + (0, 3, -20)).astype("f")


def _layer() -> BatchNormalization:
    layer = BatchNormalization(Weights(1), UNITS)
    layer.gamma.assign([0.5, 1.0, 2.0])
    layer.beta.assign([1.0, 0.0, -1.0])
    return layer


def _trained(layer: BatchNormalization, x: np.ndarray) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The result, and the gradients of a loss that weighs each sample and unit differently."""
    given = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(given)
        y = layer(given, training=True)
        loss = tf.reduce_sum(tf.sin(y) * _weights(x))
    return y, tape.gradient(loss, [given, layer.gamma, layer.beta])


def _weights(x: np.ndarray) -> np.ndarray:
    return np.cos(x * 3)


def test_a_batch_and_its_gradient_are_those_of_keras() -> None:
    x = _values()
    y, gradients = _trained(_layer(), x)
    keras = tf_keras.layers.BatchNormalization()
    keras.build(x.shape)
    keras.set_weights([variable.numpy() for variable in (_layer().gamma, _layer().beta)] + keras.get_weights()[2:])
    given = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(given)
        expected = keras(given, training=True)
        loss = tf.reduce_sum(tf.sin(expected) * _weights(x))
    wanted = tape.gradient(loss, [given, *keras.trainable_variables])
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    for found, right in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-5)


def test_scoring_takes_the_moving_averages() -> None:
    layer = _layer()
    layer.mean.assign([1.0, 2.0, 3.0])
    layer.variance.assign([4.0, 9.0, 16.0])
    x = _values()
    expected = (x - (1, 2, 3)) / np.sqrt(np.array((4, 9, 16)) + 1e-3) * (0.5, 1, 2) + (1, 0, -1)
    np.testing.assert_allclose(layer(tf.constant(x)), expected, rtol=1e-5, atol=1e-5)
    assert int(layer.steps) == 0


def test_the_averages_of_a_few_steps_are_the_means_of_their_batches() -> None:
    layer = _layer()
    batches = [_values() + shift for shift in (0, 1, 5)]
    for batch in batches:
        layer(tf.constant(batch), training=True)
    np.testing.assert_allclose(layer.mean, np.mean([b.mean(0) for b in batches], 0), rtol=1e-5)
    np.testing.assert_allclose(layer.variance, np.mean([b.var(0) for b in batches], 0), rtol=1e-4)


def test_later_steps_weigh_one_minus_the_momentum() -> None:
    layer = _layer()
    layer.steps.assign(1000)
    layer.mean.assign([10.0, 10.0, 10.0])
    x = _values()
    layer(tf.constant(x), training=True)
    np.testing.assert_allclose(layer.mean, 0.99 * 10 + 0.01 * x.mean(0), rtol=1e-5)


def test_a_batch_that_overflows_stays_out_of_the_averages() -> None:
    layer = _layer()
    layer(tf.constant(_values()), training=True)
    kept = [variable.numpy() for variable in (layer.mean, layer.variance, layer.steps)]
    layer(tf.constant([[np.inf] * UNITS, [0.0] * UNITS]), training=True)
    for variable, value in zip((layer.mean, layer.variance, layer.steps), kept, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_values_far_from_zero_keep_their_variance() -> None:
    layer = BatchNormalization(Weights(1), 1)
    x = np.random.default_rng(1).normal(3000, 0.5, (500, 1)).astype("f")
    for _ in range(2):  # the first step finds the mean
        y = layer(tf.constant(x), training=True)
    assert float(tf.math.reduce_std(y)) == pytest.approx(np.sqrt(0.25 / 0.251), rel=0.05)


def test_padding_samples_do_not_count() -> None:
    x, layers = _values(), (_layer(), _layer())
    whole, _ = _trained(layers[0], x)
    padded = np.concatenate([x, 100 + x[:5]])
    counted = tf.constant([1.0] * ROWS + [0.0] * 5)
    with global_batch(Batch(counted=counted)):
        found = layers[1](tf.constant(padded), training=True)
    np.testing.assert_allclose(found[:ROWS], whole, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layers[1].mean, layers[0].mean, rtol=1e-5)


def test_half_precision_stays_half_precision() -> None:
    assert _layer()(tf.constant(_values(), tf.float16), training=True).dtype == tf.float16


def test_compiled_ranks_are_refused() -> None:
    with (
        pytest.raises(
            KfrecError, match="xla=True: XLA cannot compile the collective operation moments of several ranks"
        ),
        training_back_end(compiled=True),
        global_batch(Batch(summing=lambda sums, name: sums)),
    ):
        _layer()(tf.constant(_values()), training=True)


def rank_main(ranks: Ranks, folder: Path) -> None:
    """Each rank normalises its part of the values, of unequal sizes, the second with padding."""
    x, own = _values(), [slice(0, 5), slice(5, ROWS)][ranks.rank]
    padded = np.concatenate([x[own], np.full((ranks.rank * 2, UNITS), 50, "f")])
    counted = tf.constant([1.0] * len(x[own]) + [0.0] * (ranks.rank * 2))
    layer = _layer()

    batch = Batch(ranks.rank, lambda sums, name: ranks.sum([sums], name)[0], ranks.gather_rows, counted)

    @tf.function
    def step(given: tf.Tensor, weights: tf.Tensor) -> list[tf.Tensor]:
        with global_batch(batch), tf.GradientTape() as tape:
            tape.watch(given)
            y = layer(given, training=True)
            loss = tf.reduce_sum(tf.sin(y) * weights * counted[:, tf.newaxis])
        return [y, *tape.gradient(loss, [given, layer.gamma, layer.beta])]

    count = len(x[own])
    y, dx, *rest = step(tf.constant(padded), tf.constant(np.cos(padded * 3), tf.float32))
    rest = ranks.sum(rest, "gradients")
    found = {"y": y[:count], "dx": dx[:count], "gamma": rest[0], "beta": rest[1], "mean": layer.mean}
    found |= {"variance": layer.variance}
    said = {name: value.numpy().tolist() for name, value in found.items()}
    (folder / f"{ranks.rank}.json").write_text(json.dumps(said))


@pytest.mark.slow
def test_two_ranks_compute_what_one_does_with_the_whole_batch(two_ranks: Path) -> None:
    parts = [json.loads((two_ranks / __name__ / f"{rank}.json").read_text()) for rank in range(2)]
    layer = _layer()
    y, (dx, gamma, beta) = _trained(layer, _values())
    for name, wanted in {"y": y, "dx": dx}.items():
        found = np.concatenate([part[name] for part in parts])
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    for part in parts:
        for name, wanted in {"gamma": gamma, "beta": beta, "mean": layer.mean, "variance": layer.variance}.items():
            np.testing.assert_allclose(part[name], wanted, rtol=1e-3, atol=1e-4)
