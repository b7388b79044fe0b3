"""What is told of events, such as their device, as an input of SIM, DIN, DIEN and SASRec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.contract import LOGIT
from components.errors import KfrecError
from components.feature_spec import Feature, FeatureSpec
from components.feature_spec.event_columns import EventColumn, with_events
from components.metrics import roc_auc
from components.models.channels import read_channels
from components.models.draws import draws_at
from components.models.loss import loss_of
from components.models.model import loss_terms_of, outputs_of
from components.models.optimizers import make_optimizer
from components.models.sasrec.model import RANK
from components.models.sequences import trimmed_histories
from tests.models.conftest import LENGTH
from tests.train.building import build_model

DEVICES = 4
MODELS = ("sim", "din", "dien", "sasrec")
FEATURES = {
    "event_device": Feature("event_device", "int64", DEVICES),
    "event_device_sequence": Feature("event_device_sequence", "int64", DEVICES, LENGTH),
}
Batch = dict[str, np.ndarray]


@pytest.fixture
def told(make_spec: Any) -> FeatureSpec:
    spec: FeatureSpec = make_spec()
    made = with_events(spec, {EventColumn("device", is_known=True): DEVICES})
    return replace(made, features={**made.features, **FEATURES})


@pytest.fixture
def batch(make_batch: Any) -> Batch:
    features, _ = make_batch(12)
    random = np.random.default_rng(4)
    devices = random.integers(1, DEVICES + 1, (12, LENGTH)) * (features["item_pos"] > 0)
    return {
        **features,
        "event_device_sequence": devices.astype(np.int32),
        "event_device": random.integers(1, 5, 12, np.int32),
    }


def built(name: str, spec: FeatureSpec, parameters: Callable[..., Any]) -> Any:
    given = {"state_dropout": 0.0, "history_dropout": 0.0} if name == "sasrec" else {}
    return build_model(parameters(name, **given), spec, seed=1)


def trained(model: Any) -> Any:
    """Lets the tables of events differ from 0, as training does."""
    for variable in model.trainable_variables:
        if "events/" in variable.name or "context/" in variable.name:
            variable.assign(tf.random.stateless_normal(variable.shape, (1, 2)))
    return model


def values(outputs: Any) -> np.ndarray:
    return np.concatenate([each.numpy().astype(np.float64).ravel() for each in outputs.values()])


@pytest.mark.parametrize("name", MODELS)
def test_untrained_histories_change_nothing(name: str, make_spec: Any, batch: Batch, parameters: Any) -> None:
    told = make_spec(features=FEATURES, channels={"event_history": ("event_device_sequence",)})
    with_events, without = (built(name, each, parameters) for each in (told, make_spec()))
    np.testing.assert_array_equal(values(outputs_of(with_events, batch)), values(outputs_of(without, batch)))


@pytest.mark.parametrize("name", MODELS)
def test_each_column_is_an_input(name: str, told: Any, batch: Batch, parameters: Any) -> None:
    model = trained(built(name, told, parameters))
    outputs = values(outputs_of(model, batch))
    other = {**batch, "event_device_sequence": np.where(batch["item_pos"] > 0, 1, 0).astype(np.int32)}
    assert (values(outputs_of(model, other)) != outputs).any()
    of_target = {**batch, "event_device": np.ones_like(batch["event_device"])}
    assert (values(outputs_of(model, of_target)) != outputs).any()
    assert set(model.serving_features) >= {"event_device_sequence", "event_device"}


@pytest.mark.parametrize("name", MODELS)
def test_values_at_padding_change_nothing(name: str, told: Any, make_batch: Any, batch: Batch, parameters: Any) -> None:
    model = trained(built(name, told, parameters))
    shown = {key: each[4:] for key, each in batch.items()}  # with more than one item
    padded = {**shown, "event_device_sequence": np.where(shown["item_pos"] > 0, shown["event_device_sequence"], 0)}
    np.testing.assert_allclose(values(outputs_of(model, padded)), values(outputs_of(model, shown)), rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_each_column_learns(name: str, told: Any, batch: Batch, parameters: Any) -> None:
    model = built(name, told, parameters)
    with tf.GradientTape() as tape:
        features = {key: tf.constant(each) for key, each in batch.items()}
        _, terms = loss_terms_of(model, features, {"label": tf.ones([12])}, tf.ones([12], tf.bool))
        loss = tf.add_n([tf.reduce_sum(term.total) for term in terms.values()])
    tables = [model.tables[key].variable for key in ("event_device_sequence", "event_device")]
    for gradient in tape.gradient(loss, tables):
        assert tf.reduce_any(gradient[1:] != 0)


@pytest.mark.parametrize("name", ["sim", "din", "dien"])
def test_one_users_history_is_embedded_once(name: str, told: Any, batch: Batch, parameters: Any) -> None:
    model = trained(built(name, told, parameters))
    shared = {key: each[-1:] for key, each in batch.items() if key not in model.target_features}
    targets = {key: batch[key] for key in model.target_features}
    whole = {key: np.repeat(each, 12, 0) for key, each in shared.items()} | targets
    np.testing.assert_allclose(
        values(outputs_of(model, {**shared, **targets})), values(outputs_of(model, whole)), rtol=1e-5
    )
    with trimmed_histories():
        trimmed = tf.function(lambda features: outputs_of(model, features))(
            {key: tf.constant(each) for key, each in whole.items()}
        )
    np.testing.assert_allclose(values(trimmed), values(outputs_of(model, whole)), rtol=1e-5)


def test_a_list_of_another_length_than_the_history_is_named(told: Any) -> None:
    other = Feature("event_device_sequence", "int64", DEVICES, LENGTH - 1)
    with pytest.raises(KfrecError, match=f"device_sequence has length {LENGTH - 1}, but item_pos has {LENGTH}"):
        read_channels(replace(told, features={**told.features, other.name: other}), negatives=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_learns_what_only_the_columns_tell(name: str, told: Any, make_batch: Any, parameters: Any) -> None:
    """The newest event's device is the target's, or it is not: the label of click models, or which item is next."""
    features, _ = make_batch(256, [LENGTH] * 256)
    random = np.random.default_rng(5)
    newest, device = random.integers(1, 3, (2, 256))
    labels = (newest == (device if name != "sasrec" else 1)).astype(np.float32)
    features["event_device_sequence"] = np.concatenate([np.full((256, LENGTH - 1), 3), newest[:, np.newaxis]], 1)
    features["event_device"] = device
    if name == "sasrec":
        features["item_trgt"] = np.where(labels > 0, 4, 9)
        features["item_pos"] = np.full_like(features["item_pos"], 7)
    batch = tensors(features)
    model = built(name, told, parameters)
    outputs = learned(model, batch, np.ones_like(labels) if name == "sasrec" else labels)
    if name == "sasrec":
        assert (outputs[RANK].numpy() == 1).mean() > 0.95
    else:
        assert roc_auc(labels, outputs[LOGIT].numpy()) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, LENGTH])
def test_new_users_are_told_by_what_is_known(length: int, told: Any, make_batch: Any, parameters: Any) -> None:
    """Whether or not the users of the training had histories."""
    features, _ = make_batch(256, [length] * 256)
    features["event_device"] = np.random.default_rng(5).integers(1, 3, 256)
    features["item_trgt"] = np.where(features["event_device"] == 1, 4, 9)
    features["event_device_sequence"] = np.full((256, LENGTH), 3 if length else 0)
    given = {"state_dropout": 0.0, "history_dropout": 0.8 if length else 0.0}
    model = build_model(parameters("sasrec", **given), told, seed=1)
    learned(model, tensors(features), np.ones(256, np.float32))
    blank = {name: np.zeros_like(features[name]) for name in ("item_pos", "event_device_sequence")}
    assert (model.outputs(tensors(features | blank))[RANK].numpy() == 1).mean() > 0.95


def tensors(features: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {
        key: tf.constant(each, tf.float32 if each.dtype.kind == "f" else tf.int32) for key, each in features.items()
    }


def learned(model: Any, batch: dict[str, tf.Tensor], labels: np.ndarray) -> dict[str, tf.Tensor]:
    """The outputs of a model after 300 steps on one batch."""
    optimizer = make_optimizer("adam", 0.002 if hasattr(model, "transformer") else 0.02)
    optimizer.build(model.trainable_variables)
    label = tf.constant(labels, tf.float32)

    @tf.function
    def train(position: tf.Tensor) -> None:
        with tf.GradientTape() as tape, draws_at(1, position):
            _, terms = model.loss_terms(batch, {"label": label}, tf.ones([len(labels)], tf.bool))
            loss = loss_of(terms.values())
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply([(each, own) for each, own in zip(gradients, model.trainable_variables, strict=True)])

    for step in range(300):
        train(tf.constant([step, 0]))
    outputs: dict[str, tf.Tensor] = model.outputs(batch)
    return outputs
