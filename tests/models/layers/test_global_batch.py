"""Losses that depend on the samples of all ranks."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.models.layers.global_batch import Batch, gathered_over_ranks, global_batch
from components.models.ops.choice import training_back_end
from components.train.loop.ranks import Ranks

ROWS, WIDTH = 12, 3
# The first rank has five samples, the second seven, and two that only fill its batch up.
SHARES, PADDING = (slice(0, 5), slice(5, ROWS)), (0, 2)


def _towers() -> tuple[np.ndarray, np.ndarray]:
    """The vectors of users and of the items that they chose, [ROWS, WIDTH]."""
    drawn = np.random.default_rng(3).normal(size=(2, ROWS, WIDTH)).astype("f")
    return drawn[0], drawn[1]


def in_batch_softmax(users: tf.Tensor, items: tf.Tensor, mask: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """``-log softmax(user . items of the global batch)`` at each user's own item, [B], times the weights' product."""
    users, items = users @ weights, items @ weights
    everything, first = gathered_over_ranks(items, "items")
    samples, _ = gathered_over_ranks(mask, "mask")
    logits = tf.matmul(users, everything, transpose_b=True) + tf.where(samples, 0.0, -1e9)
    own = first + tf.range(tf.shape(users)[0])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)


def _found(users: np.ndarray, items: np.ndarray, count: int, batch: Batch) -> Mapping[str, tf.Tensor]:
    weights = tf.Variable(tf.eye(WIDTH) + 0.1)

    @tf.function
    def step(users: tf.Tensor, items: tf.Tensor) -> dict[str, tf.Tensor]:
        mask = tf.range(tf.shape(users)[0]) < count
        with global_batch(batch), tf.GradientTape() as tape:
            tape.watch([users, items])
            losses = in_batch_softmax(users, items, mask, weights)
            total = tf.reduce_sum(tf.where(mask, losses, 0.0))
        of_users, of_items, of_weights = tape.gradient(total, [users, items, weights])
        return {"total": total, "users": of_users[:count], "items": of_items[:count], "weights": of_weights}

    return step(tf.constant(users), tf.constant(items))


def rank_main(ranks: Ranks, folder: Path) -> None:
    own, filler = SHARES[ranks.rank], PADDING[ranks.rank]
    users, items = (np.concatenate([values[own], values[own][:filler]]) for values in _towers())
    batch = Batch(ranks.rank, lambda values, name: ranks.sum([values], name)[0], ranks.gather_rows)
    found = dict(_found(users, items, len(users) - filler, batch))
    found["total"], found["weights"] = ranks.sum([found["total"], found["weights"]], "gradients")
    (folder / f"{ranks.rank}.json").write_text(json.dumps({n: v.numpy().tolist() for n, v in found.items()}))


@pytest.mark.slow
def test_two_ranks_have_the_loss_and_the_gradients_of_one_with_the_whole_batch(two_ranks: Path) -> None:
    first, second = (json.loads((two_ranks / __name__ / f"{rank}.json").read_text()) for rank in range(2))
    whole = _found(*_towers(), ROWS, Batch())
    for name in ("total", "weights"):
        for each in (first, second):
            np.testing.assert_allclose(each[name], whole[name], rtol=1e-4, atol=1e-5)
    for name in ("users", "items"):
        np.testing.assert_allclose(first[name] + second[name], whole[name], rtol=1e-4, atol=1e-5)


def test_a_single_rank_gathers_its_own_rows() -> None:
    values, first = gathered_over_ranks(tf.constant([[1.0], [2.0]]), "values")
    assert values.numpy().tolist() == [[1.0], [2.0]] and int(first) == 0


def test_compiled_ranks_are_refused() -> None:
    with (
        pytest.raises(KfrecError, match="xla=True: XLA cannot compile the collective operation values"),
        training_back_end(compiled=True),
        global_batch(Batch(0, lambda values, name: values, lambda values, name: values)),
    ):
        gathered_over_ranks(tf.constant([1.0]), "values")
