"""Item-kNN: a small worked example, the mixture against its formula in NumPy, and what a sample says of itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from components.contract import LOG_LIKELIHOOD, LONGEST_LIST
from components.feature_spec import Channel, Feature, FeatureSpec
from components.models.item_knn import ItemKnnParameters
from components.models.item_knn.model import NEXT_ITEM, RANK, ItemKnn, Pairs, count_pairs, nearest

ROWS, LENGTH = 7, 3
ALL = tf.ones([2], tf.bool)
# Two users: one chose 1, 2, 3, the other 2, 3; item 6 was never chosen.
WINDOWS = np.array([[0, 1, 2, 3], [0, 0, 2, 3]])
SETTINGS = ItemKnnParameters(neighbours=2, pair_distance=2, backward=0.5, history_decay=0.5)


def spec_of(seen_items: str = "exclude") -> FeatureSpec:
    features = [Feature("item", "int32", ROWS - 1), Feature("item_sequence", "int32", ROWS - 1, LENGTH)]
    channels = {Channel.USER: (), Channel.TARGET: ("item",), Channel.POSITIVE: ("item_sequence",)}
    metadata = {"encoding": {"sampling": {"seen_items": seen_items}}}
    return FeatureSpec({feature.name: feature for feature in features}, {}, channels, metadata=metadata)


def fitted(settings: ItemKnnParameters = SETTINGS, seen_items: str = "exclude") -> ItemKnn:
    model = ItemKnn(settings, spec_of(seen_items), seed=1)
    samples = [{"item_sequence": WINDOWS[:, :-1], "item": WINDOWS[:, -1]}]
    model.fit(model.count(samples))
    return model


def batch(histories: list[list[int]], targets: list[int]) -> dict[str, tf.Tensor]:
    padded = [[0] * (LENGTH - len(each)) + each for each in histories]
    return {"item_sequence": tf.constant(padded, tf.int32), "item": tf.constant(targets, tf.int32)}


def test_pairs_count_by_their_distance_and_both_ways() -> None:
    pairs = count_pairs([WINDOWS], ROWS, distance=2)
    counted = {(before, after): count for before, after, count in zip(*map(np.ndarray.tolist, pairs), strict=True)}
    # Occurrences stand after the beginning, 0.
    assert counted == {(0, 1): 1, (0, 2): 2, (0, 3): 2, (1, 2): 1, (1, 3): 0.5, (2, 3): 2}
    found = nearest(pairs, ROWS, neighbours=2, backward=0.5, discount=0.0)
    # near(2, 3) = 2 and near(2, 1) = 0.5 * 1; near(3, 2) = 0.5 * 2 and near(3, 1) = 0.5 * 0.5.
    assert found.items.tolist() == [[0, 0], [2, 3], [3, 1], [2, 1], [0, 0], [0, 0], [0, 0]]
    np.testing.assert_allclose(found.shares[1:4], [[1 / 1.5, 0.5 / 1.5], [2 / 2.5, 0.5 / 2.5], [1 / 1.25, 0.25 / 1.25]])
    np.testing.assert_allclose(found.units, [0, 1 / 1.5, 1 / 2.5, 1 / 1.25, 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(found.popularity, [0, 0.2, 0.4, 0.4, 0, 0, 0])


def test_popular_neighbours_are_discounted() -> None:
    found = nearest(count_pairs([WINDOWS], ROWS, distance=2), ROWS, neighbours=1, backward=0.0, discount=0.5)
    # 1 is followed by 2 and, further away, by 3, whose popularities are both 0.4.
    assert found.items[1].tolist() == [2]
    assert found.units[1] == pytest.approx(1 / (1 / 0.4**0.5))


def test_summing_pairs_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = np.random.default_rng(1).integers(0, ROWS, (40, LENGTH + 1))
    whole = count_pairs([windows], ROWS, distance=3)
    monkeypatch.setattr("components.models.item_knn.model._PAIRS", 10)
    parts = count_pairs([windows[first : first + 3] for first in range(0, 40, 3)], ROWS, distance=3)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other)


def test_the_counts_of_ranks_add_up_to_those_of_all_samples() -> None:
    windows = np.random.default_rng(1).integers(0, ROWS, (40, LENGTH + 1))
    both = [count_pairs([part], ROWS, 2) for part in (windows[:13], windows[13:])]
    joined = Pairs(*(np.concatenate(columns) for columns in zip(*both, strict=True)))
    for one, other in zip(
        nearest(joined, ROWS, 3, 0.5, 0.25), nearest(count_pairs([windows], ROWS, 2), ROWS, 3, 0.5, 0.25), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_scores_are_the_logarithm_of_the_mixture() -> None:
    scores = fitted().item_scores(batch([[1, 2], []], [3, 3])).numpy()
    # The newest item, 2, weighs 1 / 1.5, and 1 weighs 0.5 / 1.5; popularity has a share of 0.05.
    popularity = np.array([0, 0.2, 0.4, 0.4, 0, 0, 0])
    of_1, of_2 = np.array([0, 0, 2 / 3, 1 / 3, 0, 0, 0]), np.array([0, 0.2, 0, 0.8, 0, 0, 0])
    expected = 0.95 * (of_1 / 3 + of_2 * 2 / 3) + 0.05 * popularity
    np.testing.assert_allclose(np.exp(scores[0]), expected, atol=1e-6)
    np.testing.assert_allclose(np.exp(scores[1]), popularity, atol=1e-6)


def test_items_without_neighbours_have_no_weight() -> None:
    model = fitted()
    alone, beside = (model.item_scores(batch([history], [3])).numpy() for history in ([1], [1, 6]))
    np.testing.assert_allclose(alone, beside, rtol=1e-5)
    unknown = model.item_scores(batch([[6], [99], []], [3, 3, 3])).numpy()
    np.testing.assert_allclose(unknown[:2], unknown[[2, 2]], rtol=1e-5)


# Without the history 3 is the first; beside it 3 is before 1, and 2 as well. 1 is of the history.
@pytest.mark.parametrize(("seen_items", "ranks"), [("exclude", [1, LONGEST_LIST + 1]), ("keep", [1, 3])])
def test_ranks_follow_the_policy_and_the_likelihood_is_that_of_the_score(seen_items: str, ranks: list[int]) -> None:
    model = fitted(seen_items=seen_items)
    samples = batch([[1, 2], [1, 2]], [3, 1])
    scores, outputs = model.item_scores(samples).numpy(), model.outputs(samples)
    assert outputs[RANK].numpy().tolist() == ranks
    np.testing.assert_allclose(outputs[LOG_LIKELIHOOD], scores[[0, 1], [3, 1]])
    assert outputs[RANK].dtype == tf.float32


def test_the_loss_leaves_out_what_the_sample_itself_has_counted() -> None:
    model = fitted()
    samples = batch([[1, 2], [2]], [3, 3])
    _, terms = model.loss_terms(samples, {}, ALL)
    # Without the first sample, 1 has no pair with 3, and of near(2, 3) = 2 of 2.5 there is 1 of 1.5.
    first = 0.95 * (2 / 3 * (1 / 1.5)) + 0.05 * 0.4
    second = 0.95 * (1 / 1.5) + 0.05 * 0.4
    np.testing.assert_allclose(terms[NEXT_ITEM].total, -np.log([first, second]), rtol=1e-5)
    outputs, judged = model.loss_terms(samples, {}, ALL, training=False)
    np.testing.assert_allclose(-judged[NEXT_ITEM].total, model.outputs(samples)[LOG_LIKELIHOOD], rtol=1e-5)
    np.testing.assert_allclose(outputs[LOG_LIKELIHOOD], -judged[NEXT_ITEM].total, rtol=1e-5)


def test_for_lists_made_overnight_the_target_is_learned_from_earlier_days() -> None:
    spec = spec_of()
    days = Feature("days", "int32", None, LENGTH)
    channels = {**spec.channels, Channel.DAYS: (days.name,)}
    nightly = ItemKnn(SETTINGS, replace(spec, features={**spec.features, days.name: days}, channels=channels), seed=1)
    nightly.fit(nightly.count([{"item_sequence": WINDOWS[:, :-1], "item": WINDOWS[:, -1]}]))
    # 2 is of the target's day, 1 of an earlier one.
    samples = batch([[1, 2]], [3])
    _, terms = nightly.loss_terms(samples | {days.name: tf.constant([[2, 1, 0]])}, {}, ALL)
    _, without = fitted().loss_terms(samples | {"item_sequence": tf.constant([[0, 1, 0]])}, {}, ALL)
    np.testing.assert_allclose(terms[NEXT_ITEM].total, without[NEXT_ITEM].total, rtol=1e-5)


def test_drawn_samples_and_unknown_targets_teach_nothing() -> None:
    label = {"label": tf.constant([0.0, 1.0])}
    _, terms = fitted().loss_terms(batch([[1, 2], [2]], [3, 0]), label, ALL)
    assert terms[NEXT_ITEM].count.numpy().tolist() == [0, 0]
    assert terms[NEXT_ITEM].total.numpy().tolist() == [0, 0]


def test_drawn_samples_are_not_counted() -> None:
    spec = spec_of()
    labelled = replace(
        spec,
        features={**spec.features, "label": Feature("label", "int8")},
        channels={**spec.channels, Channel.LABEL: ("label",)},
    )
    model = ItemKnn(SETTINGS, labelled, seed=1)
    samples = [{"item_sequence": WINDOWS[:, :-1], "item": WINDOWS[:, -1], "label": np.array([1, 0])}]
    counts = count_pairs([WINDOWS[:1]], ROWS, 2)
    for one, other in zip(model.count(samples), counts, strict=True):
        np.testing.assert_allclose(one, other)


def test_gradients_reach_the_decay_and_the_share_of_popularity() -> None:
    model = fitted()
    with tf.GradientTape() as tape:
        _, terms = model.loss_terms(batch([[1, 2], [2, 3]], [3, 1]), {}, ALL)
        loss = tf.reduce_sum(terms[NEXT_ITEM].total)
    assert model.trainable_variables == (model.decay, model.popular)
    assert all(np.abs(gradient.numpy()).max() > 0 for gradient in tape.gradient(loss, model.trainable_variables))
