import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.feature_spec import Feature
from tests.models.calling import logits, loss_terms
from tests.train.building import build_model


def _with_weights(model, seed=3):
    random = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    return model


def test_the_logit_adds_up_a_weight_for_each_id_and_each_number(spec, parameters, make_batch):
    model = _with_weights(build_model(parameters("logistic_regression"), spec))
    features, _ = make_batch(20)
    one_hot = np.zeros([20, 7])
    one_hot[np.arange(20), features["city"]] = 1
    counts = np.stack([np.bincount(row[row > 0], minlength=6) for row in features["tags"]])
    city, tags = (model.tables[name].variable.numpy()[:, 0] for name in ("city", "tags"))
    numbers = np.stack([features["price"], features["age"]], 1) @ model.linear.kernel.numpy()[:, 0]
    expected = one_hot @ city + counts @ tags + numbers + model.linear.bias.numpy()
    np.testing.assert_allclose(logits(model, features), expected, rtol=1e-5, atol=1e-6)


def test_an_untrained_model_gives_even_odds(spec, parameters, make_batch):
    model = build_model(parameters("logistic_regression"), spec)
    np.testing.assert_array_equal(logits(model, make_batch(5)[0]), np.zeros(5))


def test_numbers_alone_are_enough(make_spec, parameters):
    spec = make_spec(channels={"categorical": (), "multihot": ()})
    model = _with_weights(build_model(parameters("logistic_regression"), spec))
    numbers = {"price": np.array([1, 2], np.float32), "age": np.array([0, 1], np.float32)}
    w, b = model.linear.kernel.numpy()[:, 0], model.linear.bias.numpy()[0]
    # The terms may cancel: the rounding is that of the terms, below 2, not that of their sum.
    np.testing.assert_allclose(logits(model, numbers), [w[0] + b, 2 * w[0] + w[1] + b], rtol=0, atol=1e-6)


@pytest.mark.slow
def test_trained_popularity_gives_the_counted_rate_of_every_value(spec, parameters):
    from components.models.loss import loss_of
    from components.models.optimizers.adam import Adam

    model = build_model(parameters("popularity", feature="city"), spec)
    city = np.repeat([0, 1, 2, 3], [8, 10, 4, 20]).astype(np.int32)
    clicks = [4, 1, 3, 13]
    labels = np.concatenate([np.arange(n) < c for n, c in zip([8, 10, 4, 20], clicks, strict=True)]).astype(np.float32)
    optimizer = Adam(0.05)
    for _ in range(600):
        with tf.GradientTape() as tape:
            loss = loss_of(loss_terms(model, {"city": tf.constant(city)}, tf.constant(labels))[1].values())
        optimizer.apply(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
    rates = tf.sigmoid(logits(model, {"city": tf.constant([0, 1, 2, 3])}))
    np.testing.assert_allclose(rates, [0.5, 0.1, 0.75, 0.65], atol=1e-3)


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        ({}, "item_trgt"),
        ({"target_item_features": ()}, "city"),
        ({"target_item_features": (), "categorical": ()}, "tags"),
    ],
)
def test_popularity_counts_the_target_item_or_the_first_column(channels, expected, make_spec, parameters):
    assert build_model(parameters("popularity"), make_spec(channels=channels)).serving_features == (expected,)


def test_popularity_of_a_feature_that_is_not_there_is_refused(spec, parameters):
    with pytest.raises(KfrecError, match=r"parameter feature='price': .* has no such ids; it has item_trgt, cat_trgt"):
        build_model(parameters("popularity", feature="price"), spec)


def test_popularity_needs_ids(make_spec, parameters):
    channels = dict.fromkeys(("target_item_features", "categorical", "multihot", "user_features"), ())
    with pytest.raises(KfrecError, match="no feature with a cardinality"):
        build_model(parameters("popularity"), make_spec(channels=channels))


def test_a_list_without_values_has_the_rate_of_all(parameters, make_spec):
    spec = make_spec(features={"tags": Feature("tags", "int64", 5, 3)})
    model = _with_weights(build_model(parameters("popularity", feature="tags"), spec))
    np.testing.assert_allclose(logits(model, {"tags": tf.zeros([1, 3], tf.int32)}), model.linear.bias.numpy())
