"""SASRec in one file: plain TensorFlow, on the records that kfrec's tfrecord step wrote.

    python docs/examples/sasrec.py RUN/tfrecord --epochs 10

trains the model of ``components/models/sasrec`` on one CPU or GPU and prints NDCG@10 and HR@10 of the test split, as
the evaluate step measures them. What kfrec adds to these lines: several ranks, checkpoints that go on at the
exact step, gradients of single rows, float16, blocks of items where a catalogue does not fit, and masks of dropout that
do not depend on the batch.

Kang and McAuley, Self-Attentive Sequential Recommendation, https://arxiv.org/abs/1808.09781, with the loss over all
items of Klenitskiy and Vasilev, https://arxiv.org/abs/2309.07602.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import yaml


class Data:
    """Samples: the items of a user's history, oldest first and padded with 0 on the left, and the item that came next.

    Args:
        folder: with ``feature_spec.yaml`` and record files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spec = yaml.safe_load((folder / "feature_spec.yaml").read_text())
        channels = self._spec["channel_spec"]
        (self.label,) = channels["label"]
        self.target, self.history = channels["target_item_features"][0], channels["positive_history"][0]
        features = self._spec["feature_spec"]
        (self.length,) = features[self.history]["dimensions"]
        self.rows = features[self.target]["cardinality"] + 1
        # Id 0 is the padding, and ids up to that of unknown items stand for none.
        item = next(v for v in self._spec["metadata"]["vocabulary"].values() if self.target in v.get("features", ()))
        self.first = item["unknown"] + 1

    def batches(self, split: str, size: int, shuffle: bool = False) -> tf.data.Dataset:
        """The samples with a chosen item, as ``{"history": [B, L], "target": [B]}``."""
        if self._spec["metadata"][split]["prebatch_size"]:
            raise SystemExit(f"{self._folder}: records hold many samples each; this reads records of one")
        kinds = {
            self.label: tf.io.FixedLenFeature([], tf.int64),
            self.target: tf.io.FixedLenFeature([], tf.int64),
            self.history: tf.io.FixedLenFeature([self.length], tf.int64),
        }
        files = [str(self._folder / name) for source in self._spec["source_spec"][split] for name in source["files"]]
        samples = tf.data.TFRecordDataset(files)
        if shuffle:
            samples = samples.shuffle(100_000)
        parsed = samples.map(lambda record: tf.io.parse_single_example(record, kinds))
        chosen = parsed.filter(lambda sample: sample[self.label] > 0)
        return chosen.map(
            lambda sample: {"history": self._known(sample[self.history]), "target": self._known(sample[self.target])}
        ).batch(size)

    def _known(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.where((ids >= 0) & (ids < self.rows), ids, 0)


class Attention(tf.Module):
    """A layer: each position attends to itself and to those before it, and passes a small network.

    Args:
        width: of a state.
        heads: divide the width.
        hidden: width of the network's hidden layer.
        dropout: share of what is dropped in training.
    """

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.mix = (Linear(width, width) for _ in range(4))
        self.hidden, self.output = Linear(width, hidden), Linear(hidden, width)
        self.attended, self.passed = Norm(width), Norm(width)

    def __call__(self, x: tf.Tensor, bias: tf.Tensor, training: bool) -> tf.Tensor:
        """x: ``[B, L, width]``; bias: ``[B, 1, L, L]``, 0 or a very small number for what a position does not see."""
        length, width = x.shape[1:]

        def split(states: tf.Tensor) -> tf.Tensor:  # [B, heads, L, width / heads]
            return tf.transpose(tf.reshape(states, [-1, length, self.heads, width // self.heads]), [0, 2, 1, 3])

        scores = tf.matmul(split(self.query(x)), split(self.key(x)), transpose_b=True)
        weights = tf.nn.softmax(scores / np.sqrt(width / self.heads) + bias)
        mixed = tf.matmul(dropped(weights, self.dropout, training), split(self.value(x)))
        states = self.mix(tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), tf.shape(x)))
        x = self.attended(x + dropped(states, self.dropout, training))
        states = self.output(tf.nn.gelu(self.hidden(x)))
        return self.passed(x + dropped(states, self.dropout, training))


class SasRec(tf.Module):
    """The state after each item of a history, whose product with an item's embedding is the logit of that item.

    Position 0 is the beginning, before the first item, so a user without a history gets what users begin with.

    Args:
        rows: of the table of items, with the padding and the unknown ones.
        length: of a history.
        width, layers, heads, hidden, dropout: sizes, and the share of what is dropped in training.
    """

    def __init__(
        self, rows: int, length: int, width: int = 64, layers: int = 2, heads: int = 2, hidden: int = 256,
        dropout: float = 0.5,
    ) -> None:  # fmt: skip
        super().__init__()
        self.items, self.positions = kernel(rows, width), kernel(length + 1, width)
        self.norm, self.dropout = Norm(width), dropout
        self.layers = [Attention(width, heads, hidden, dropout) for _ in range(layers)]

    def states(self, history: tf.Tensor, training: bool = False) -> tf.Tensor:
        """``[B, L]`` to ``[B, L, width]``."""
        is_item = history > 0
        position = tf.cumsum(tf.cast(is_item, tf.int32), 1)
        # The beginning is the padding before the first item, if there is any.
        begins = tf.concat([is_item[:, 1:], tf.ones_like(is_item[:, :1])], 1) & ~is_item
        earlier = np.tri(history.shape[1], dtype=bool)
        bias = tf.where((is_item | begins)[:, tf.newaxis] & earlier, 0.0, -1e9)[:, tf.newaxis]
        x = self.norm(tf.gather(self.items, history) + tf.gather(self.positions, position))
        x = dropped(x, self.dropout, training)
        for layer in self.layers:
            x = layer(x, bias, training)
        return x

    def loss(self, batch: Mapping[str, tf.Tensor], first: int) -> tf.Tensor:
        """The mean cross-entropy, among all items, of every item of the histories and of what came next.

        Args:
            batch: of ``Data.batches``.
            first: the smallest id of an item.
        """
        following = tf.concat([batch["history"][:, 1:], batch["target"][:, tf.newaxis]], 1)
        places = tf.where(following >= first)
        states = tf.gather_nd(self.states(batch["history"], training=True), places)
        logits = tf.matmul(states, self.items[first:], transpose_b=True)
        wanted = tf.gather_nd(following, places) - first
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, logits))

    def ranks(self, batch: Mapping[str, tf.Tensor], first: int) -> tf.Tensor:
        """The rank of what came next among the items that the history lacks, from 1, float32 ``[B]``.

        Equal scores share the mean of their ranks. An item that the history has, and what is no item, is behind all.
        """
        history, target = batch["history"], batch["target"]
        scores = tf.matmul(self.states(history)[:, -1], self.items, transpose_b=True)
        own = tf.gather(scores, target, batch_dims=1)[:, tf.newaxis]
        ids = tf.range(scores.shape[1], dtype=target.dtype)
        seen = tf.reduce_any(tf.one_hot(history, scores.shape[1], True, False), 1)
        is_new = tf.reduce_all(history != target[:, tf.newaxis], 1)
        competes = (ids >= first) & (ids != target[:, tf.newaxis]) & ~seen
        ahead = tf.cast(scores > own, tf.float32) + 0.5 * tf.cast(scores == own, tf.float32)
        rank = 1 + tf.reduce_sum(tf.where(competes, ahead, 0.0), 1)
        return tf.where((target >= first) & is_new, rank, np.inf)


class Linear(tf.Module):
    """``x W + b``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel, self.bias = kernel(inputs, outputs), tf.Variable(tf.zeros([outputs]))

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return tf.tensordot(x, self.kernel, 1) + self.bias


class Norm(tf.Module):
    """Layer normalisation, https://arxiv.org/abs/1607.06450."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma, self.beta = tf.Variable(tf.ones([width])), tf.Variable(tf.zeros([width]))

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-12) * self.gamma + self.beta


class Adam(tf.Module):
    """Kingma and Ba, https://arxiv.org/abs/1412.6980."""

    def __init__(self, variables: tuple[tf.Variable, ...], rate: float) -> None:
        super().__init__()
        self._variables, self._rate, self.step = variables, rate, tf.Variable(0.0)
        self.moments = [(tf.Variable(tf.zeros_like(v)), tf.Variable(tf.zeros_like(v))) for v in variables]

    def apply(self, gradients: list[tf.Tensor]) -> None:
        t = self.step.assign_add(1.0)
        rate = self._rate * tf.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        for variable, gradient, (m, v) in zip(self._variables, gradients, self.moments, strict=True):
            dense = tf.convert_to_tensor(gradient)
            m.assign(0.9 * m + 0.1 * dense)
            v.assign(0.999 * v + 0.001 * dense**2)
            variable.assign_sub(rate * m / (tf.sqrt(v) + 1e-7))


def kernel(*shape: int) -> tf.Variable:
    """Fresh weights."""
    return tf.Variable(tf.random.truncated_normal(shape, stddev=0.02))


def dropped(x: tf.Tensor, rate: float, training: bool) -> tf.Tensor:
    """Dropout."""
    return tf.nn.dropout(x, rate) if training and rate else x


def metrics(model: SasRec, data: Data, split: str) -> dict[str, float]:
    """NDCG@10 and HR@10 of a split."""
    score = tf.function(lambda batch: model.ranks(batch, data.first), reduce_retracing=True)
    ranks = np.concatenate([score(batch).numpy() for batch in data.batches(split, 256)])
    return {
        "ndcg": float(np.where(ranks <= 10, 1 / np.log2(1 + ranks), 0.0).mean()),
        "hr": float((ranks <= 10).mean()),
    }


def train(
    folder: Path, epochs: int = 10, batch: int = 256, rate: float = 0.001, dropout: float = 0.5, seed: int = 1
) -> dict[str, float]:
    """Trains, takes the epoch with the best NDCG@10 of the validation split, and returns the metrics of the test split.

    Args:
        folder: of the tfrecord step's output.
        epochs: passes over the training samples.
        batch: samples of a step.
        rate: of Adam.
        dropout: share of what is dropped in training.
        seed: of weights, dropout and the order of the samples.
    """
    tf.random.set_seed(seed)
    data = Data(folder)
    model = SasRec(data.rows, data.length, dropout=dropout)
    adam = Adam(model.trainable_variables, rate)

    @tf.function(reduce_retracing=True)
    def step(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = model.loss(batch, data.first)
        adam.apply(tape.gradient(loss, model.trainable_variables))
        return loss

    best, weights = -1.0, [variable.numpy() for variable in model.trainable_variables]
    for epoch in range(epochs):
        losses = [step(samples) for samples in data.batches("train", batch, shuffle=True)]
        validated = metrics(model, data, "validation")
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, validation NDCG@10 {validated['ndcg']:.4f}", flush=True)
        if validated["ndcg"] > best:
            best, weights = validated["ndcg"], [variable.numpy() for variable in model.trainable_variables]
    for variable, value in zip(model.trainable_variables, weights, strict=True):
        variable.assign(value)
    return metrics(model, data, "test")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tfrecord", type=Path, help="the tfrecord step's output")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    tested = train(given.tfrecord, given.epochs, given.batch, seed=given.seed)
    print(f"test NDCG@10 {tested['ndcg']:.4f}, HR@10 {tested['hr']:.4f}")
