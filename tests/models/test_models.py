"""What every model of a binary outcome promises."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from components import registry
from components.models import LossTerm, make_optimizer
from components.models.loss import loss_of
from components.models.model import SharingUser
from components.models.sequences import trimmed_histories
from components.models.sim import model as sim
from components.scoring.operations import require_harmless
from components.tasks.binary.streaming import BinaryMetrics
from tests.binary import update
from tests.models.calling import logits, loss_terms
from tests.train.building import build_model

MODELS = [name for name in registry.names(registry.MODELS) if registry.model(name).task in ("click", "ranking")]


@pytest.fixture(params=MODELS)
def model_type(request):
    return request.param


@pytest.fixture
def model(model_type, spec, parameters):
    return build_model(parameters(model_type), spec)


def _served(model, features):
    """What the model's signature takes, ids as int64."""
    return {
        name: tf.constant(features[name], tf.float32 if features[name].dtype == np.float32 else tf.int64)
        for name in model.serving_features
    }


def _loss_and_gradients(model, features, labels):
    with tf.GradientTape() as tape:
        found, terms = loss_terms(model, features, tf.convert_to_tensor(labels))
        loss = loss_of(terms.values())
    gradients = tape.gradient(loss, model.trainable_variables)
    return found, loss, [tf.convert_to_tensor(gradient) for gradient in gradients]


def test_a_definition_goes_by_the_name_it_is_registered_under(model_type):
    assert registry.model(model_type).name == model_type


def test_every_table_of_a_model_embeds_one_feature(model, spec):
    assert model.tables
    for name, table in model.tables.items():
        assert table.rows == spec.features[table.feature or name].cardinality + 1
        assert table.begin + table.rows <= table.variable.shape[0]


def test_scoring_needs_no_negatives_and_no_labels(model, make_batch):
    features, labels = make_batch(9)
    served = _served(model, features)
    scores = logits(model, served)
    assert (scores.dtype, scores.shape) == (tf.float32, (9,))
    np.testing.assert_allclose(scores, loss_terms(model, features, labels)[0], atol=1e-6)


@pytest.mark.slow
def test_padding_that_all_samples_share_can_be_left_out(model, make_batch):
    batches = [make_batch(len(lengths), history=lengths)[0] for lengths in ([8, 3, 0], [5, 2], [1], [0, 0], [])]
    given = [_served(model, features) for features in batches]
    signature = {name: tf.TensorSpec((None, *ids.shape[1:]), ids.dtype) for name, ids in given[0].items()}

    @tf.function(input_signature=[signature])
    def trimmed(served):
        with trimmed_histories():
            return logits(model, served)

    for served in given:
        np.testing.assert_allclose(trimmed(served), logits(model, served), atol=1e-6)


def test_the_terms_of_two_halves_add_up_to_those_of_the_batch(model, make_batch):
    features, labels = make_batch(11)
    _, whole = loss_terms(model, features, labels)
    halves = [
        loss_terms(model, {name: values[part] for name, values in features.items()}, labels[part])[1]
        for part in (slice(0, 4), slice(4, 11))
    ]
    for name, term in whole.items():
        for whole, first, second in zip(term[:2], halves[0][name][:2], halves[1][name][:2], strict=True):
            np.testing.assert_allclose(whole, np.concatenate([first, second]), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 1, 3], ids=["no rows", "one row", "only padding"])
def test_gradients_are_finite_where_there_is_nothing_to_attend_to(model, rows, make_batch):
    _, loss, gradients = _loss_and_gradients(model, *make_batch(rows, history=[0] * rows))
    assert np.isfinite(loss)
    for gradient, variable in zip(gradients, model.trainable_variables, strict=True):
        assert np.isfinite(gradient).all(), variable.name
        if rows == 0:
            assert not np.any(gradient), variable.name


def test_every_weight_learns(model, make_batch):
    _, _, gradients = _loss_and_gradients(model, *make_batch(40))
    for gradient, variable in zip(gradients, model.trainable_variables, strict=True):
        # The softmax ignores what is added to all of its scores: this gradient is rounding alone, which may be zero.
        assert np.any(gradient) or variable.name == "evolution/attention/output/bias:0", variable.name


@pytest.mark.slow
def test_weights_depend_on_the_seed_alone(model_type, spec, parameters):
    def weights(seed):
        return [v.numpy() for v in build_model(parameters(model_type), spec, seed=seed).trainable_variables]

    first = weights(3)
    tf.random.normal([5])
    for one, again in zip(first, weights(3), strict=True):
        np.testing.assert_array_equal(one, again)
    # A convex model draws nothing: all its weights start at 0.
    is_drawn = any(one.any() for one in first)
    assert is_drawn == any(not np.allclose(one, other) for one, other in zip(first, weights(4), strict=True))


@pytest.mark.slow
def test_training_lowers_the_loss(model, model_type, make_batch):
    # A table of weights has further to go than a network.
    optimizer = make_optimizer("adam", 0.2 if model_type in ("logistic_regression", "popularity") else 0.02)
    optimizer.build(model.trainable_variables)
    features, _ = make_batch(64)
    read = next(name for name in ("cat_trgt", "city", "item_trgt") if name in model.serving_features)
    labels = (features[read] % 2).astype(np.float32)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            _, terms = loss_terms(model, features, tf.constant(labels))
            loss = loss_of(terms.values())
        variables = model.trainable_variables
        optimizer.apply(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    losses = [float(step()) for _ in range(50)]
    # The auxiliary loss of random histories cannot fall below log(2); the rest can fall to 0.
    assert losses[-1] < losses[0] - 0.4


def test_mixed_precision_gives_finite_single_precision_logits_and_gradients(model_type, spec, parameters, make_batch):
    features, labels = make_batch(9)
    found, _, gradients = _loss_and_gradients(build_model(parameters(model_type, amp=True), spec), features, labels)
    assert found.dtype == tf.float32
    assert all(gradient.dtype == tf.float32 and np.isfinite(gradient).all() for gradient in gradients)
    single = logits(build_model(parameters(model_type), spec), features)
    np.testing.assert_allclose(found, single, atol=5e-3)


@pytest.mark.slow
def test_xla_compiles_the_step_and_agrees(model, make_batch):
    features, labels = make_batch(9)

    @tf.function(jit_compile=True)
    def compiled(features, labels):
        return _loss_and_gradients(model, features, labels)

    features = {name: tf.constant(values) for name, values in features.items()}
    for ours, plain in zip(
        tf.nest.flatten(compiled(features, labels)),
        tf.nest.flatten(_loss_and_gradients(model, features, labels)),
        strict=True,
    ):
        np.testing.assert_allclose(ours, plain, atol=1e-5)


@pytest.mark.slow
def test_a_saved_model_scores_batches_of_any_size(model, make_batch, tmp_path):
    features, _ = make_batch(1)
    signature = {
        name: tf.TensorSpec([None, *value.shape[1:]], value.dtype, name)
        for name, value in _served(model, features).items()
    }
    serve = tf.function(lambda **features: {"logits": logits(model, features)})
    tf.saved_model.save(model, str(tmp_path), signatures=serve.get_concrete_function(**signature))
    require_harmless(tmp_path)
    served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    for rows in (0, 5):
        features, _ = make_batch(rows)
        wanted = _served(model, features)
        np.testing.assert_allclose(served(**wanted)["logits"], logits(model, features), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("repetition", [False, True])
@pytest.mark.parametrize("name", ["sim", "din", "dien"])
def test_many_targets_of_one_user_score_as_samples_that_repeat_the_users_features(
    name, repetition, spec, parameters, make_batch
):
    model = build_model(dataclasses.replace(parameters(name), repetition=repetition), spec)
    assert isinstance(model, SharingUser)
    features, _ = make_batch(7)
    features = _served(model, features)
    one = {name: values if name in model.target_features else values[2:3] for name, values in features.items()}
    repeated = {
        name: values if name in model.target_features else np.repeat(values, 7, 0) for name, values in one.items()
    }

    @tf.function(input_signature=[{
        name: tf.TensorSpec([None if name in model.target_features else 1, *values.shape[1:]], values.dtype)
        for name, values in one.items()
    }])  # fmt: skip
    def shared(features):
        with trimmed_histories():
            return logits(model, features)

    np.testing.assert_allclose(shared(one), logits(model, repeated), atol=1e-5)


def test_a_loss_term_passes_through_a_compiled_function():
    term = tf.function(lambda: LossTerm(tf.constant(6.0), tf.constant(3.0), 0.5))()
    assert [float(value) for value in term[:3]] == [6.0, 3.0, 0.5]


_WORK = {"AddV2", "Sub", "Mul", "Neg", "Maximum", "Minimum", "Sum", "Cumsum", "Greater", "GreaterEqual", "Less",
         "LessEqual", "Equal", "SelectV2", "RightShift", "Transpose", "Pack", "ConcatV2", "StridedSlice",
         "GatherV2"}  # fmt: skip


@pytest.mark.slow
def test_ids_for_a_gpu_are_computed_with_on_the_gpu(model, make_batch, monkeypatch):
    """TensorFlow computes with int32 on the host: any such work, other than on shapes, stops the GPU in each step."""
    monkeypatch.setattr(sim, "FOUND_ITEMS", 2)  # fewer than the history has, so that they are searched for
    features, labels = make_batch(9)
    features = {
        name: tf.constant(values, tf.float32 if values.dtype == np.float32 else tf.int64)
        for name, values in features.items()
    }
    shapes = {name: tf.TensorSpec([None, *values.shape[1:]], values.dtype) for name, values in features.items()}
    histogram = BinaryMetrics(with_loss=False)

    @tf.function(input_signature=[shapes, tf.TensorSpec([None])], autograph=False)
    def differentiate(features, labels):
        found, loss, gradients = _loss_and_gradients(model, features, labels)
        update(histogram, labels, found)
        return loss, gradients

    graph = differentiate.get_concrete_function().graph
    of_samples = [
        operation.name
        for operation in graph.get_operations()
        if operation.type in _WORK
        and operation.inputs[0].dtype == tf.int32
        and operation.inputs[0].shape.rank
        and operation.inputs[0].shape[0] is None
    ]
    assert of_samples == []
    loss, gradients = differentiate(features, labels)
    _, expected, expected_gradients = _loss_and_gradients(model, features, labels)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    for gradient, right in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, right, atol=1e-6)
