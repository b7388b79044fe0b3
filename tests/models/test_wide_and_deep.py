from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components import registry
from components.feature_spec import Feature, FeatureSpec
from components.models.draws import draws_at
from components.models.loss import loss_of
from components.models.optimizers.schedules import at
from components.models.wide_and_deep import MODEL, deep_schedule
from components.models.wide_and_deep.model import PUBLISHED, width_of
from tests.models.calling import logits, loss_terms
from tests.train.building import build_model


def _feature(cardinality: int, name: str = "unknown") -> Feature:
    return Feature(name, "int64", cardinality)


@pytest.fixture
def model(spec, parameters):
    """Weights of the wide part start at 0; these do not."""
    built = build_model(parameters("wide_and_deep", deep_hidden_units=(5, 4)), spec)
    random = np.random.default_rng(3)
    for variable in built.trainable_variables:
        variable.assign(random.normal(0, 0.5, variable.shape))
    return built


def _numpy_logits(model, features):
    """wide: w_city + sum of w_tags + numbers . w + b; deep: relu layers over the embeddings and the numbers."""
    numbers = np.stack([features["price"], features["age"]], 1)
    there = (features["tags"] > 0)[..., np.newaxis]

    def embedded(part):
        tables = {name: table.variable.numpy() for name, table in part.embed.tables.items()}
        return [tables["city"][features["city"]], (tables["tags"][features["tags"]] * there).sum(1)]

    wide = sum(embedded(model.wide)) + numbers @ model.wide.kernel.numpy() + model.wide.bias.numpy()
    x = np.concatenate([*embedded(model.deep), numbers], 1)
    for layer in model.deep.hidden:
        x = np.maximum(x @ layer.kernel.numpy() + layer.bias.numpy(), 0)
    return (wide + x @ model.deep.output.kernel.numpy() + model.deep.output.bias.numpy())[:, 0]


def test_the_logit_is_the_sum_of_both_parts(model, make_batch):
    features, _ = make_batch(20)
    np.testing.assert_allclose(logits(model, features), _numpy_logits(model, features), rtol=1e-4, atol=1e-5)


def test_the_loss_is_the_mean_log_loss(model, make_batch):
    features, labels = make_batch(20)
    _, terms = loss_terms(model, features, labels, training=False)
    p = 1 / (1 + np.exp(-_numpy_logits(model, features)))
    assert list(terms) == ["cross_entropy"]
    mean = float(loss_of([terms["cross_entropy"]]))
    assert mean == pytest.approx(-np.mean(np.where(labels > 0, np.log(p), np.log(1 - p))), rel=1e-5)


def test_the_wide_part_starts_at_zero_and_embeddings_start_glorot_normal(spec, parameters):
    wide_spec = FeatureSpec({**spec.features, "city": _feature(9_999, "city")}, {}, spec.channels)
    model: Any = build_model(parameters("wide_and_deep", embedding_dim=64), wide_spec)
    assert not any(np.any(variable) for variable in model.wide.trainable_variables)
    table = model.tables["city"].variable.numpy()
    assert table.shape == (10_000, 64)
    assert table.std() == pytest.approx(np.sqrt(2 / 10_064), rel=0.01)
    assert np.abs(table).max() <= 2 * np.sqrt(2 / 10_064) / 0.8796


def test_the_published_sizes_are_the_defaults():
    parameters = MODEL.parameters()
    assert parameters.deep_hidden_units == (1024,) * 5 and parameters.deep_dropout == 0.1
    one_id_each = [width for name, width in PUBLISHED.items() if not name.endswith("_list")]
    assert sum(one_id_each) == 1040 and sum(PUBLISHED.values()) == 1040 + 3 * 64


@pytest.mark.parametrize(("cardinality", "width"), [(2, 16), (100, 16), (101, 64), (10_000, 64), (10_001, 128)])
def test_an_unknown_feature_is_as_wide_as_its_cardinality_asks_for(cardinality, width):
    assert width_of(_feature(cardinality), 0) == width


def test_a_width_by_hand_holds_for_every_feature():
    assert {width_of(_feature(4, name), 8) for name in ("platform", "ad_id", "unknown")} == {8}


def test_the_deep_rate_rises_for_six_epochs_and_falls_to_an_eighth_after_thirteen():
    parameters, steps = MODEL.parameters(), 455
    rate = deep_schedule(parameters, 20, steps)
    wanted = {0: 0, 1365: 6e-5, 2729: 1.2e-4 * 2729 / 2730, 2730: 3e-5, 5914: 3e-5, 5915: 1.5e-5, 9099: 1.5e-5}
    for step, value in wanted.items():
        assert float(at(rate, tf.constant(float(step)))) == pytest.approx(value, rel=1e-6)


def test_the_phases_of_the_deep_rate_are_shares_of_the_epochs():
    parameters = MODEL.parameters(deep_warmup_epochs=1)
    rate = deep_schedule(parameters, 5, 10)  # warm-up to step 10, a quarter to step 30
    values = [float(at(rate, tf.constant(float(step)))) / 1.2e-4 for step in (5, 10, 29, 30, 49)]
    np.testing.assert_allclose(values, [0.5, 0.25, 0.25, 0.125, 0.125])


def test_each_part_has_its_optimizer(spec, parameters):
    settings = parameters("wide_and_deep")
    model: Any = build_model(settings, spec)
    wide, deep = registry.model("wide_and_deep").optimizers(settings, model, 10)
    assert (wide.optimizer.name, deep.optimizer.name) == ("ftrl", "rmsprop")
    assert {variable.ref() for variable in wide.variables} == {v.ref() for v in model.wide.variables}
    assert len(wide.variables) + len(deep.variables) == len(model.trainable_variables)


def test_dropout_acts_in_training_only(spec, parameters, make_batch):
    model = build_model(parameters("wide_and_deep", deep_hidden_units=(50,), deep_dropout=0.5), spec)
    features, labels = make_batch(9)
    with draws_at(1):
        trained = loss_terms(model, features, labels)[0].numpy()
    assert not np.allclose(trained, logits(model, features))
    np.testing.assert_allclose(logits(model, features), logits(model, features), rtol=1e-5)


@pytest.mark.parametrize("left", ["categorical", "multihot", "numerical"])
def test_a_table_may_have_one_kind_of_column_only(spec, parameters, make_batch, left):
    channels = {"label": spec.channels["label"], left: spec.channels[left]}
    model = build_model(parameters("wide_and_deep"), FeatureSpec(spec.features, {}, channels))
    features, labels = make_batch(7)
    found, _ = loss_terms(model, {name: features[name] for name in model.serving_features}, labels)
    assert found.shape == (7,)


def test_normalized_layers_score_by_the_moving_averages(spec, parameters, make_batch):
    settings = parameters("wide_and_deep", deep_hidden_units=(5,), batch_normalization=True)
    built: Any = build_model(settings, spec)
    features, labels = make_batch(20)
    loss_terms(built, features, labels)
    numbers = np.stack([features["price"], features["age"]], 1)
    x = np.concatenate([*(each.numpy() for each in built.deep.embed(features)), numbers], 1)
    z = x @ built.deep.hidden[0].kernel.numpy() + built.deep.hidden[0].bias.numpy()
    # After one step the averages are that step's statistics; gamma is 1 and beta 0.
    hidden = np.maximum((z - z.mean(0)) / np.sqrt(z.var(0) + 1e-3), 0)
    expected = hidden @ built.deep.output.kernel.numpy() + built.deep.output.bias.numpy()
    np.testing.assert_allclose(logits(built, features), expected[:, 0], rtol=1e-3, atol=1e-4)


def test_the_penalty_is_the_squares_of_a_samples_embeddings(spec, parameters, make_batch):
    built: Any = build_model(parameters("wide_and_deep", embedding_l2=0.25), spec)
    features, labels = make_batch(20)
    _, terms = loss_terms(built, features, labels)
    squares = sum(np.square(each).sum(1) for each in built.deep.embed(features))
    np.testing.assert_allclose(terms["embedding_l2"].total, squares, rtol=1e-5)
    assert terms["embedding_l2"].weight == 0.25


def test_the_deep_part_can_train_with_adam_at_a_constant_rate(spec, parameters):
    settings = parameters("wide_and_deep", deep_optimizer="adam", deep_warmup_epochs=0, deep_decay=False)
    groups = registry.model("wide_and_deep").optimizers(settings, build_model(settings, spec), 10)
    assert [group.optimizer.name for group in groups] == ["ftrl", "adam"]
    rate = deep_schedule(settings, 20, 10)
    np.testing.assert_allclose([float(at(rate, tf.constant(float(step)))) for step in (0, 50, 1000)], 1.2e-4)
