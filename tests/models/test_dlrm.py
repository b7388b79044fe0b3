"""DLRM against NumPy, its learning rate, and what it makes of unusual tables."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components import registry
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.models.dlrm import MODEL, learning_rate
from components.models.draws import draws_at
from components.models.optimizers.schedules import at
from components.parameters import build
from components.steps.catalog import worker_parameters
from tests.models.calling import logits, loss_terms
from tests.train.building import build_model


def _layers(mlp, x, linear):
    for number, (kernel, bias) in enumerate(zip(mlp.kernels, mlp.biases, strict=True)):
        x = x @ kernel.numpy() + bias.numpy()
        if not (linear and number == len(mlp.kernels) - 1):
            x = np.maximum(x, 0)
    return x


def _by_hand(model, features):
    """Sample by sample, pair by pair; tags are a list, whose 0s are padding."""
    city, tags = (model.tables[name].variable.numpy() for name in ("city", "tags"))
    found = []
    for row in range(len(features["city"])):
        numbers = np.array([features["price"][row], features["age"][row]])
        bottom = _layers(model.bottom, numbers, linear=False)
        many = sum((tags[tag] for tag in features["tags"][row] if tag), np.zeros(tags.shape[1]))
        vectors = [bottom, city[features["city"][row]], many]
        pairs = [vectors[1] @ vectors[0], vectors[2] @ vectors[0], vectors[2] @ vectors[1]]
        found.append(_layers(model.top, np.concatenate([bottom, pairs]), linear=True)[0])
    return found


def test_logits_are_those_of_the_formula(spec, parameters, make_batch):
    model = build_model(parameters("dlrm"), spec)
    features, _ = make_batch(11)
    read = {name: features[name] for name in model.serving_features}
    np.testing.assert_allclose(logits(model, read), _by_hand(model, features), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("left", [("categorical",), ("multihot",), ("numerical",), ("categorical", "multihot")])
def test_a_table_may_lack_kinds_of_columns(spec, parameters, make_batch, left):
    channels = {"label": spec.channels["label"], **{name: spec.channels[name] for name in left}}
    model: Any = build_model(parameters("dlrm"), FeatureSpec(spec.features, {}, channels))
    features, labels = make_batch(7)
    found, terms = loss_terms(model, {name: features[name] for name in model.serving_features}, labels)
    assert found.shape == (7,) and np.isfinite(terms["cross_entropy"].total).all()


def test_without_numbers_the_sum_of_the_embeddings_goes_to_the_top(spec, parameters, make_batch):
    channels = {name: spec.channels[name] for name in ("label", "categorical", "multihot")}
    model: Any = build_model(parameters("dlrm"), FeatureSpec(spec.features, {}, channels))
    features, _ = make_batch(5)
    city = model.tables["city"].variable.numpy()[features["city"]]
    rows = model.tables["tags"].variable.numpy()[features["tags"]]
    tags = (rows * (features["tags"] > 0)[..., None]).sum(1)
    top = np.concatenate([city + tags, (city * tags).sum(1, keepdims=True)], 1)
    expected = _layers(model.top, top, linear=True)[:, 0]
    np.testing.assert_allclose(logits(model, features), expected, rtol=1e-4, atol=1e-6)


def test_the_published_sizes_are_the_defaults():
    parameters = MODEL.parameters()
    assert parameters.embedding_dim == 128
    assert (parameters.bottom_mlp_dims, parameters.top_mlp_dims) == ((512, 256, 128), (1024, 1024, 512, 256, 1))
    assert worker_parameters("dlrm")().global_batch_size == 65_536


def test_the_published_rate_rises_holds_and_falls():
    rate = learning_rate(MODEL.parameters())
    wanted = {
        0: 0,
        4000: 12,
        7999: 24 * 7999 / 8000,
        8000: 24,
        48_000: 24,
        60_000: 6,
        66_000: 1.5,
        72_000: 0,
        80_000: 0,
    }
    for step, value in wanted.items():
        assert float(at(rate, tf.constant(float(step)))) == pytest.approx(value, rel=1e-5)


def test_a_rate_that_does_not_fall_stays():
    rate = learning_rate(MODEL.parameters(warmup_steps=0, decay_steps=0, learning_rate=2.0))
    assert {float(at(rate, tf.constant(float(step)))) for step in (0, 100_000)} == {2.0}


def test_adam_leaves_alone_the_rows_that_a_batch_lacks(spec, parameters):
    settings = parameters("dlrm", optimizer="adam")
    model = build_model(settings, spec)
    tables, rest = registry.model("dlrm").optimizers(settings, model, 10)
    assert (tables.optimizer.name, rest.optimizer.name) == ("lazy_adam", "adam")
    assert {variable.ref() for variable in tables.variables} == {t.variable.ref() for t in model.tables.values()}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"embedding_dim": "16"}, "bottom_mlp_dims=512,256,128 does not end in embedding_dim=16"),
        ({"bottom_mlp_dims": ""}, "bottom_mlp_dims= does not end in embedding_dim=128"),
        ({"top_mlp_dims": "64,32"}, "top_mlp_dims=64,32 does not end in 1, the logit; append a 1"),
    ],
)
def test_layers_that_do_not_fit_are_refused_in_one_line(given, message):
    with pytest.raises(KfrecError, match=message):
        build(worker_parameters("dlrm"), given)


@pytest.mark.parametrize(
    ("changed", "dropped"),
    [
        (dict(top_dropout=0.5, top_mlp_dims=(50, 1)), (0, 1)),
        (dict(bottom_dropout=0.5, bottom_mlp_dims=(50, 2)), (1, 0)),  # but not the vector of the interactions
    ],
)
def test_dropout_acts_on_hidden_layers_and_in_training_only(spec, parameters, make_batch, changed, dropped):
    model: Any = build_model(parameters("dlrm", **changed), spec)
    features, labels = make_batch(9)
    with draws_at(1):
        trained = loss_terms(model, features, labels)[0].numpy()
    assert not np.allclose(trained, logits(model, features))
    np.testing.assert_array_equal(logits(model, features), logits(model, features))
    assert (len(model.bottom.dropouts), len(model.top.dropouts)) == dropped


def test_both_networks_normalize_their_hidden_layers(spec, parameters, make_batch):
    model: Any = build_model(parameters("dlrm", batch_normalization=True), spec)
    features, labels = make_batch(50)
    loss_terms(model, features, labels)
    assert (len(model.bottom.normalizations), len(model.top.normalizations)) == (2, 2)  # the logit is none
    numbers = np.stack([features["price"], features["age"]], 1)
    z = numbers @ model.bottom.kernels[0].numpy() + model.bottom.biases[0].numpy()
    np.testing.assert_allclose(model.bottom.normalizations[0].mean, z.mean(0), rtol=1e-3, atol=1e-5)


def test_the_penalty_is_the_squares_of_a_samples_embeddings(spec, parameters, make_batch):
    model: Any = build_model(parameters("dlrm", embedding_l2=0.5), spec)
    features, labels = make_batch(20)
    _, terms = loss_terms(model, features, labels)
    squares = sum(np.square(each).sum(1) for each in model.embed(features))
    np.testing.assert_allclose(terms["embedding_l2"].total, squares, rtol=1e-5)
    assert terms["embedding_l2"].weight == 0.5
