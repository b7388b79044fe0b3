"""The channels of a table are read as a model needs them, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from components.contract import PIECES
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.models.tabular import read_tabular
from tests.models.calling import loss_terms
from tests.train.building import build_model

CITY, TAGS, PRICE = Feature("city", "int64", 9), Feature("tags", "int64", 5, 3), Feature("price", "float32")
AGE = Feature("age", "float32")


def spec(**channels: Feature) -> FeatureSpec:
    features = {feature.name: feature for feature in channels.values()}
    named = {channel: (feature.name,) for channel, feature in channels.items()}
    return FeatureSpec(features, {}, named, folder=Path("data"))


def test_each_channel_is_read() -> None:
    read = read_tabular(spec(categorical=CITY, multihot=TAGS, numerical=PRICE, quantile=AGE))
    assert (read.categorical, read.multihot, read.numerical, read.quantile) == ((CITY,), (TAGS,), (PRICE,), (AGE,))
    assert read.serving_features == ("city", "tags", "price", "age")


def test_channels_may_be_absent_but_not_all() -> None:
    assert read_tabular(spec(numerical=PRICE)).serving_features == ("price",)
    with pytest.raises(KfrecError, match="no feature in the channels categorical, multihot, numerical, quantile"):
        read_tabular(spec(**{Channel.LABEL: Feature("label", "bool")}))


@pytest.mark.parametrize(
    ("channel", "feature", "message"),
    [
        ("categorical", Feature("city", "int64"), "city has no cardinality"),
        ("categorical", Feature("city", "int64", 9, 2), r"city has dimensions \[2\]"),
        ("multihot", Feature("tags", "int64", 5), "tags has no dimensions"),
        ("numerical", Feature("price", "int64"), "price has dtype int64"),
        ("numerical", Feature("price", "float32", None, 2), r"price has dimensions \[2\]"),
        ("quantile", Feature("age", "int64"), "age has dtype int64; channel quantile has float32"),
    ],
)
def test_a_feature_that_does_not_fit_its_channel_is_named(channel: str, feature: Feature, message: str) -> None:
    with pytest.raises(KfrecError, match=f"feature {message}"):
        read_tabular(spec(**{channel: feature}))


def test_a_label_that_is_a_number_is_refused() -> None:
    with pytest.raises(KfrecError, match="label fare has dtype float32, and the model learns 0 or 1"):
        read_tabular(spec(numerical=PRICE, label=Feature("fare", "float32")))


def test_numbers_come_before_the_pieces_of_quantiles() -> None:
    read = read_tabular(spec(numerical=PRICE, quantile=AGE))
    found = read.stacked({"price": tf.constant([7.0, -3.0]), "age": tf.constant([0.0, 1.0])}).numpy()
    np.testing.assert_array_equal(found, [[7.0, *[0.0] * PIECES], [-3.0, *[1.0] * PIECES]])
    assert read.numbers == found.shape[1]


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["wide_and_deep", "dlrm", "dcn_v2", "logistic_regression"])
def test_a_model_learns_a_range_of_a_quantile(model_type: str, parameters: Any) -> None:
    model: Any = build_model(parameters(model_type), spec(quantile=AGE))
    q = np.random.default_rng(1).random(500).astype(np.float32)
    features, labels = {"age": tf.constant(q)}, tf.constant((np.abs(q - 0.5) < 0.25).astype(np.float32))
    optimizer = tf_keras.optimizers.Adam(0.05)
    for _ in range(150):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(loss_terms(model, features, labels)[1]["cross_entropy"].total)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
    # A linear function of the quantile would not tell the middle from the ends: its loss is ln 2.
    assert float(loss) < 0.6
