"""SIM as a Keras model, layer by layer as the papers draw it, and a plain training step with dense Adam.

With the same weights (``copy_weights``) it computes the same function as components.models.sim, without that
module's algebraic simplifications, so losses can be compared step by step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from components.models.sim.model import Sim

LONG, SHORT, FOUND = 90, 10, 50
ITEM_FEATURES = ("item", "cat")


class PReLU(keras.layers.Layer):
    def build(self, shape: Any) -> None:
        self.alpha = self.add_weight("alpha", shape=(shape[-1],), initializer=keras.initializers.Constant(0.1))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(x) - self.alpha * tf.nn.relu(-x)


class Classifier(keras.layers.Layer):
    def __init__(self, dims: tuple[int, ...]) -> None:
        super().__init__()
        self.hidden = [(keras.layers.Dense(dim), PReLU()) for dim in dims]
        self.logit = keras.layers.Dense(1)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        for dense, prelu in self.hidden:
            x = prelu(dense(x))
        return tf.squeeze(self.logit(x), -1)


class GateCell(keras.layers.Layer):
    """A GRU cell, or with attention an AUGRU cell: three matmuls of the inputs and three of the state per step."""

    def __init__(self, units: int, attention: bool) -> None:
        super().__init__()
        self.units, self.attention = units, attention
        self.state_size = units
        self.of_input = [keras.layers.Dense(units) for _ in range(3)]
        self.of_state = [keras.layers.Dense(units, use_bias=False) for _ in range(3)]

    def call(self, inputs: tf.Tensor, states: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        state = states[0]
        x, a = (inputs[:, :-1], inputs[:, -1:]) if self.attention else (inputs, None)
        update = tf.sigmoid(self.of_input[0](x) + self.of_state[0](state))
        reset = tf.sigmoid(self.of_input[1](x) + self.of_state[1](state))
        candidate = tf.tanh(self.of_input[2](x) + reset * self.of_state[2](state))
        if a is not None:
            update = (1.0 - a) * update
        state = update * state + (1.0 - update) * candidate
        return state, [state]


class ReferenceSim(keras.Model):
    """SIM with embedding width 16 per feature and default layer sizes, float32."""

    def __init__(self, cardinalities: Mapping[str, int], width: int = 16) -> None:
        super().__init__()
        self.tables = {name: keras.layers.Embedding(n + 1, width) for name, n in cardinalities.items()}
        units = 6 * width
        self.extraction = keras.layers.RNN(GateCell(units, attention=False), return_sequences=True)
        self.evolution = keras.layers.RNN(GateCell(units, attention=True))
        self.target_to_state = keras.layers.Dense(units)
        self.target_activation = PReLU()
        self.attention = [keras.layers.Dense(n, activation=a) for n, a in ((80, "sigmoid"), (40, "sigmoid"), (1, None))]
        self.next_item = [
            keras.layers.Dense(n, activation=a) for n, a in ((100, "sigmoid"), (50, "sigmoid"), (1, None))
        ]
        self.stage_one = Classifier((200,))
        self.stage_two = Classifier((200, 80))

    def call(self, features: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Logits of both stages, and the auxiliary loss."""
        target, positive = self._items(features, "trgt"), self._items(features, "pos")
        negative = self._items(features, "neg")
        user = self.tables["uid"](features["uid"])
        mask = features["item_pos"] > 0
        long, long_mask, short, short_mask = positive[:, :LONG], mask[:, :LONG], positive[:, LONG:], mask[:, LONG:]
        # stage one: search
        scores = tf.reduce_sum(long * target[:, None, :], -1)
        attention = _masked_softmax(scores, long_mask)
        interest = tf.reduce_sum(attention[..., None] * long, 1)
        stage_one = self.stage_one(tf.concat([target, interest, user], -1))
        # stage two: attention over the items found
        found_scores, best = tf.math.top_k(attention, FOUND)
        items, found_mask = tf.gather(long, best, batch_dims=1), found_scores > 0
        items = items * tf.cast(found_mask, tf.float32)[..., None]
        closely = _masked_softmax(tf.reduce_sum(items * target[:, None, :], -1), found_mask)
        attended = tf.reduce_sum(closely[..., None] * items, 1)
        mean = tf.reduce_sum(items, 1) / (tf.reduce_sum(tf.cast(found_mask, tf.float32), -1, keepdims=True) + 1.0)
        evolved, auxiliary = self._dien(short, short_mask, negative, target)
        stage_two = self.stage_two(tf.concat([attended, mean, target, evolved, user], -1))
        return stage_one, stage_two, auxiliary

    def _items(self, features: Mapping[str, tf.Tensor], which: str) -> tf.Tensor:
        return tf.concat([self.tables[name](features[f"{name}_{which}"]) for name in ITEM_FEATURES], -1)

    def _dien(
        self, short: tf.Tensor, mask: tf.Tensor, negative: tf.Tensor, target: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        states = self.extraction(short * tf.cast(mask, tf.float32)[..., None])
        wanted = self.target_activation(self.target_to_state(target))
        tiled = tf.tile(wanted[:, None, :], [1, SHORT, 1])
        x = tf.concat([states, tiled, states - tiled, states * tiled], -1)
        for layer in self.attention:
            x = layer(x)
        attention = _masked_softmax(tf.squeeze(x, -1), mask)
        evolved = self.evolution(tf.concat([states, attention[..., None]], -1))
        clicked = self._comes_next(states[:, :-1], short[:, 1:])
        unclicked = self._comes_next(states[:, :-1], negative[:, -SHORT + 1 :])
        valid = tf.cast(mask[:, 1:], tf.float32)
        losses = 0.5 * (tf.nn.softplus(-clicked) + tf.nn.softplus(unclicked)) * valid
        return evolved, tf.math.divide_no_nan(tf.reduce_sum(losses), tf.reduce_sum(valid))

    def _comes_next(self, states: tf.Tensor, items: tf.Tensor) -> tf.Tensor:
        x = tf.concat([states, items], -1)
        for layer in self.next_item:
            x = layer(x)
        return tf.squeeze(x, -1)


def _masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    return tf.nn.softmax(tf.where(mask, scores, -1e9)) * tf.cast(mask, tf.float32)


def training_step(
    model: ReferenceSim, optimizer: keras.optimizers.Optimizer, features: Mapping[str, tf.TensorSpec]
) -> Any:
    """A training step as a tf.function: maps ``features`` and labels, of any batch size, to the loss."""
    bce = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function(input_signature=[features, tf.TensorSpec((None,), tf.float32)])
    def step(features: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            one, two, auxiliary = model(features, training=True)
            loss = 0.5 * (bce(labels[:, None], one[:, None]) + bce(labels[:, None], two[:, None])) + auxiliary
        gradients = tape.gradient(loss, model.trainable_variables)
        # Dense Adam, as published: every step updates every row of a table.
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        optimizer.apply_gradients(zip(dense, model.trainable_variables, strict=True))
        return loss

    return step


def copy_weights(source: Sim, model: ReferenceSim) -> None:
    """Copies the weights of ``source`` to ``model``, which must be built."""
    for number, name in enumerate((*ITEM_FEATURES, "uid")):
        model.tables[name].set_weights([source.inputs.embedding.table(number).numpy()])
    evolution = source.evolution
    for layer, recurrence in (
        (model.extraction.cell, evolution.extraction),
        (model.evolution.cell, evolution.evolution),
    ):
        biases = [*recurrence.gate_biases.numpy(), recurrence.candidate_bias.numpy()]
        for gate in range(3):
            layer.of_input[gate].set_weights([recurrence.kernels[gate].numpy(), biases[gate]])
            layer.of_state[gate].set_weights([recurrence.recurrent_kernels[gate].numpy()])
    _copy(evolution.target, model.target_to_state)
    model.target_activation.set_weights([evolution.target_activation.alpha.numpy()])
    unit, network = evolution.attention, source.next_item
    model.attention[0].set_weights([unit.kernel.numpy(), unit.bias.numpy()])
    _copy(unit.second, model.attention[1])
    _copy(unit.output, model.attention[2])
    model.next_item[0].set_weights([network.kernel.numpy(), network.bias.numpy()])
    for layer, own in zip(network.rest, model.next_item[1:], strict=True):
        _copy(layer, own)
    for classifier, own in ((source.stage_one, model.stage_one), (source.stage_two, model.stage_two)):
        for (dense, prelu), (own_dense, own_prelu) in zip(classifier.hidden, own.hidden, strict=True):
            _copy(dense, own_dense)
            own_prelu.set_weights([prelu.alpha.numpy()])
        _copy(classifier.output, own.logit)


def _copy(dense: Any, layer: keras.layers.Dense) -> None:
    layer.set_weights([dense.kernel.numpy(), dense.bias.numpy()])
