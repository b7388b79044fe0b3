import numpy as np
import pytest
import tensorflow as tf

from components.models.channels import read_channels
from components.models.draws import draws_at
from components.models.inputs import SequenceInputs
from components.models.layers.weights import Weights
from components.models.sequences import trimmed_histories

# Of conftest's specification.
LENGTH, SHORT = 8, 3


@pytest.fixture
def inputs(spec) -> SequenceInputs:
    channels = read_channels(spec, negatives=True)
    return SequenceInputs(Weights(1), channels, short_length=SHORT, embedding_dim=2, dtype=tf.float32)


def _embed(inputs: SequenceInputs, item: np.ndarray, category: np.ndarray) -> np.ndarray:
    tables = (inputs.embedding.table(0).numpy(), inputs.embedding.table(1).numpy())
    return np.concatenate([tables[0][item], tables[1][category]], -1)


def test_a_history_splits_into_the_oldest_and_the_newest_items(inputs, make_batch):
    features, _ = make_batch(5)
    batch = inputs(features)
    history = _embed(inputs, features["item_pos"], features["cat_pos"])
    np.testing.assert_array_equal(inputs.embedding(batch.long), history[:, :-SHORT])
    np.testing.assert_array_equal(batch.short, history[:, -SHORT:].swapaxes(0, 1))


def test_the_masks_say_where_the_first_history_feature_is_not_padding(inputs, make_batch):
    features, _ = make_batch(5)
    batch = inputs(features)
    np.testing.assert_array_equal(tf.concat([batch.long_mask, batch.short_mask], 1), features["item_pos"] > 0)


@pytest.mark.parametrize(("lengths", "kept"), [((2, 6, 8), 5), ((2, 6), 3), ((4, 1), 1), ((0, 0), 1)])
def test_trimmed_a_long_history_begins_with_the_first_item_of_any_sample(inputs, make_batch, lengths, kept):
    features, _ = make_batch(len(lengths), history=list(lengths))
    whole = inputs(features)
    with trimmed_histories():
        trimmed = inputs(features)
    np.testing.assert_array_equal(trimmed.long, whole.long[:, -kept:])
    np.testing.assert_array_equal(trimmed.long_mask, whole.long_mask[:, -kept:])
    np.testing.assert_array_equal(trimmed.short, whole.short)
    np.testing.assert_array_equal(trimmed.short_mask, whole.short_mask)


def test_candidates_are_what_came_next_and_what_did_not(inputs, make_batch):
    features, _ = make_batch(5)
    batch = inputs(features, negatives=True)
    came = _embed(inputs, features["item_pos"], features["cat_pos"])[:, -SHORT + 1 :]
    sampled = _embed(inputs, features["item_neg"], features["cat_neg"])[:, 1:]
    np.testing.assert_array_equal(batch.candidates, np.stack([came, sampled]).swapaxes(1, 2))


def test_of_a_full_negative_history_the_newest_are_read(make_spec, inputs, make_batch):
    features, _ = make_batch(5)
    expected = inputs(features, negatives=True).candidates
    channels = read_channels(make_spec(negative_length=LENGTH), negatives=True)
    full = SequenceInputs(Weights(1), channels, short_length=SHORT, embedding_dim=2, dtype=tf.float32)
    for name in ("item_neg", "cat_neg"):
        features[name] = np.pad(features[name], [(0, 0), (LENGTH - SHORT, 0)], constant_values=1)
    np.testing.assert_array_equal(full(features, negatives=True).candidates, expected)


def test_ids_outside_the_cardinality_read_as_padding(inputs, make_batch):
    features = {name: values.astype(np.int64) for name, values in make_batch(2)[0].items()}
    padding = inputs({**features, "item_trgt": np.array([0, 0])}).target
    for unknown in (21, -1, 2**40):
        batch = inputs({**features, "item_trgt": np.array([unknown, unknown])})
        np.testing.assert_array_equal(batch.target, padding)


def test_a_specification_may_have_no_user_feature(make_spec, make_batch):
    channels = read_channels(make_spec(channels={"user_features": ()}), negatives=True)
    inputs = SequenceInputs(Weights(1), channels, short_length=SHORT, embedding_dim=2, dtype=tf.float32)
    assert inputs(make_batch(5)[0]).user.shape == (5, 0)


def test_in_training_a_share_of_the_users_becomes_unknown(make_spec, make_batch):
    channels = read_channels(make_spec(), negatives=True)
    inputs = SequenceInputs(
        Weights(1), channels, short_length=SHORT, embedding_dim=2, dtype=tf.float32, user_dropout=0.5
    )
    features, _ = make_batch(400)
    features["uid"] = np.full(400, 3)
    known, unknown = inputs.embedding.table(2).numpy()[[3, 0]]
    with draws_at(1):
        users = inputs(features, training=True).user.numpy()
    is_known = (users == known).all(1)
    assert ((users == unknown).all(1) | is_known).all()
    assert 120 < is_known.sum() < 280
    assert (inputs(features).user.numpy() == known).all(), "scoring forgets nobody"
    with draws_at(1, np.array([1, 0], np.int32)):
        again = (inputs(features, training=True).user.numpy() == known).all(1)
    assert (again != is_known).any(), "each step forgets others"
