"""Wide & Deep, DLRM and DCN V2 for ids in plain Keras, with Adam, embedding L2, batch normalisation and dropout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tf_keras as keras

_WIDTH, _HIDDEN, _DROPOUT, _CROSSES = 16, (128, 64), 0.3, 2
_RATE, _BATCH, _EPOCHS, _PATIENCE = 0.001, 256, 30, 3

Split = tuple[np.ndarray, np.ndarray]


def build(model: str, cardinalities: Sequence[int], l2: float) -> keras.Model:
    """A compiled model of ids ``[B, columns]``.

    Args:
        model: wide_and_deep, dlrm or dcn_v2.
        cardinalities: largest id of each column.
        l2: penalty of each embedding table.
    """
    layers = keras.layers
    ids = keras.Input([len(cardinalities)], dtype=tf.int32)
    penalty = keras.regularizers.L2(l2)

    def embedded(width: int) -> list[tf.Tensor]:
        return [
            layers.Embedding(cardinality + 1, width, embeddings_regularizer=penalty)(ids[:, column])
            for column, cardinality in enumerate(cardinalities)
        ]

    vectors = embedded(_WIDTH)
    x = layers.Concatenate()(vectors)
    if model == "dlrm":
        stacked = layers.Reshape([len(vectors), _WIDTH])(x)
        lower = np.ravel_multi_index(np.tril_indices(len(vectors), -1), (len(vectors),) * 2)
        products = tf.reshape(tf.matmul(stacked, stacked, transpose_b=True), [-1, len(vectors) ** 2])
        x = layers.Concatenate()([layers.Add()(vectors), tf.gather(products, lower, axis=1)])
    crossed = x
    if model == "dcn_v2":
        for _ in range(_CROSSES):
            crossed = layers.Add()([layers.Multiply()([x, layers.Dense(x.shape[-1])(crossed)]), crossed])
    for units in _HIDDEN:
        x = layers.ReLU()(layers.BatchNormalization()(layers.Dense(units)(x)))
        x = layers.Dropout(_DROPOUT)(x)
    logit = layers.Dense(1)(x)
    if model == "wide_and_deep":
        logit = layers.Add()([logit, *embedded(1)])
    elif model == "dcn_v2":
        logit = layers.Add()([logit, layers.Dense(1, use_bias=False)(crossed)])
    built = keras.Model(ids, logit)
    built.compile(
        keras.optimizers.Adam(_RATE),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.AUC(2000, from_logits=True, name="auc")],
    )
    return built


def fit(model: str, cardinalities: Sequence[int], l2: float, seed: int, train: Split, validation: Split) -> keras.Model:
    """Trains, and restores the weights of the epoch with the best AUC on the validation samples.

    Args:
        model: wide_and_deep, dlrm or dcn_v2.
        cardinalities: largest id of each column.
        l2: penalty of each embedding table.
        seed: of weights, dropout and order.
        train: ids ``[rows, columns]`` and labels.
        validation: the same, which judge the epochs.
    """
    keras.utils.set_random_seed(seed)
    built = build(model, cardinalities, l2)
    stop = keras.callbacks.EarlyStopping("val_auc", patience=_PATIENCE, mode="max", restore_best_weights=True)
    built.fit(*train, _BATCH, _EPOCHS, verbose=0, validation_data=validation, callbacks=[stop])
    return built
