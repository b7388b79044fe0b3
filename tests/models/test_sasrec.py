"""SASRec against its formulas in NumPy, on planted sequences, exported and asked for lists."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from components.contract import LOG_LIKELIHOOD, LONGEST_LIST
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.models.draws import draws_at
from components.models.layers.global_batch import Batch, global_batch
from components.models.layers.ranks import rank_scores, rank_targets
from components.models.loss import loss_of
from components.models.ops.choice import training_back_end
from components.models.optimizers import make_optimizer
from components.models.sasrec import MODEL, SasRecParameters
from components.models.sasrec.model import NEXT_ITEM, RANK, SasRec
from components.steps.catalog import STEPS
from components.train.loop.ranks import Ranks

ITEMS, LENGTH = 12, 6
SMALL = SasRecParameters(item_dim=8, attention_layers=2, attention_heads=2, feed_forward_dim=16, state_dropout=0.0)
ALL = tf.ones([4], tf.bool)


def spec_of(length: int = LENGTH, items: int = ITEMS) -> FeatureSpec:
    features = [Feature("item", "int32", items), Feature("item_sequence", "int32", items, length)]
    channels = {Channel.USER: (), Channel.TARGET: ("item",), Channel.POSITIVE: ("item_sequence",)}
    return FeatureSpec({feature.name: feature for feature in features}, {}, channels)


def padded(histories: list[list[int]], length: int = LENGTH) -> tf.Tensor:
    return tf.constant([[0] * (length - len(each)) + each for each in histories], tf.int32)


def batch(histories: list[list[int]], targets: list[int], length: int = LENGTH) -> dict[str, tf.Tensor]:
    return {"item_sequence": padded(histories, length), "item": tf.constant(targets, tf.int32)}


HISTORIES = [[3, 1, 4, 1, 5, 9], [2, 6], [], [7]]
TARGETS = [8, 5, 3, 2]


@pytest.fixture(scope="module")
def model() -> SasRec:
    return SasRec(SMALL, spec_of(), seed=1)


def log_softmax(model: SasRec, history: list[int]) -> np.ndarray:
    """Of the items 1 to ITEMS, from the vector of a user with this history."""
    vector = model.user_vectors({"item_sequence": padded([history])}).numpy()[0].astype(np.float64)
    logits = model.items.numpy()[1:].astype(np.float64) @ vector
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def test_the_likelihood_is_the_softmax_over_all_items_and_the_rank_leaves_out_the_history(model: SasRec) -> None:
    outputs = {name: values.numpy() for name, values in model.outputs(batch(HISTORIES, TARGETS)).items()}
    for place, (history, target) in enumerate(zip(HISTORIES, TARGETS, strict=True)):
        likelihoods = log_softmax(model, history)
        assert outputs[LOG_LIKELIHOOD][place] == pytest.approx(likelihoods[target - 1], abs=1e-5)
        rivals = [item for item in range(1, ITEMS + 1) if item not in history and item != target]
        expected = 1 + sum(likelihoods[item - 1] > likelihoods[target - 1] for item in rivals)
        assert outputs[RANK][place] == expected


def test_items_of_the_history_compete_where_the_data_keep_them(model: SasRec) -> None:
    keeping = SasRec(SMALL, replace(spec_of(), metadata={"encoding": {"sampling": {"seen_items": "keep"}}}), seed=1)
    for place, (history, target) in enumerate(zip(HISTORIES, [9, 5, 3, 7], strict=True)):
        found = keeping.outputs(batch([history], [target]))[RANK].numpy()[0]
        likelihoods = log_softmax(model, history)
        assert found == 1 + sum(likelihoods > likelihoods[target - 1]), place


def test_every_item_of_a_history_is_learned_given_those_before_it(model: SasRec) -> None:
    _, terms = model.loss_terms(batch(HISTORIES, TARGETS), {}, ALL)
    for place, (history, target) in enumerate(zip(HISTORIES, TARGETS, strict=True)):
        events = [*history, target]
        # A full history has no beginning.
        first = 1 if len(history) == LENGTH else 0
        losses = [-log_softmax(model, events[:end])[events[end] - 1] for end in range(first, len(events))]
        assert terms[NEXT_ITEM].total.numpy()[place] == pytest.approx(sum(losses), rel=1e-5)
        assert terms[NEXT_ITEM].count.numpy()[place] == len(losses)


def test_validation_learns_only_the_target_and_drawn_samples_nothing(model: SasRec) -> None:
    label = {"label": tf.constant([1.0, 0.0, 1.0, 1.0])}
    outputs, terms = model.loss_terms(batch(HISTORIES, TARGETS), label, ALL, training=False)
    expected = model.outputs(batch(HISTORIES, TARGETS))[LOG_LIKELIHOOD].numpy() * [1, 0, 1, 1]
    np.testing.assert_allclose(outputs[LOG_LIKELIHOOD], expected, rtol=1e-5)
    np.testing.assert_allclose(-terms[NEXT_ITEM].total, expected, rtol=1e-5)
    np.testing.assert_array_equal(terms[NEXT_ITEM].count, [1, 0, 1, 1])


OF_ITEMS = np.array([0, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4, 3, 4])


def with_categories(folder: Path, **parameters: Any) -> SasRec:
    """A model of items 3 to ITEMS, whose categories are those of OF_ITEMS; 2 is an unknown item, and its category."""
    cat, sequence = Feature("cat", "int32", 4), Feature("cat_sequence", "int32", 4, LENGTH)
    plain = spec_of()
    vocabulary = {
        name: {"file": f"vocabulary/{name}.parquet", "unknown": 2, "features": [name, f"{name}_sequence"]}
        for name in ("item", "cat")
    }
    channels = {Channel.TARGET: ("item", "cat"), Channel.POSITIVE: ("item_sequence", "cat_sequence")}
    spec = replace(
        plain,
        features={**plain.features, "cat": cat, "cat_sequence": sequence},
        channels={**plain.channels, **channels},
        metadata={"vocabulary": vocabulary},
        folder=folder,
    )
    return SasRec(replace(SMALL, item_features="categories", **parameters), spec, seed=1)


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    (tmp_path / "vocabulary").mkdir()
    ids = np.arange(3, ITEMS + 1)
    pq.write_table(pa.table({"item": ids, "cat": OF_ITEMS[3:]}), tmp_path / "vocabulary" / "catalogue.parquet")
    return tmp_path


def test_categories_of_items_are_part_of_their_vectors_and_stand_for_new_items(catalogue: Path) -> None:
    model = with_categories(catalogue)
    assert model.told is not None
    cats = model.told.embeddings.numpy()
    vectors = model.items.numpy()[3:] + cats[OF_ITEMS[3:]]
    samples = batch(HISTORIES, [8, 5, 3, 2]) | {"cat": tf.constant([4, 3, 3, 3])}
    found = model.target_vectors(samples).numpy()
    # The last target is unknown, and of category 3.
    np.testing.assert_allclose(found, [vectors[5], vectors[2], vectors[0], cats[3]], atol=1e-6)
    logits = model.user_vectors(samples).numpy()[0] @ vectors.T
    likelihood = logits[5] - np.log(np.exp(logits).sum())
    assert model.outputs(samples)[LOG_LIKELIHOOD].numpy()[0] == pytest.approx(likelihood, abs=1e-5)
    _, terms = model.loss_terms(samples, {}, ALL, training=False)
    assert terms[NEXT_ITEM].total.numpy()[0] == pytest.approx(-likelihood, abs=1e-5)
    # Histories are looked up with their categories.
    before = model.user_vectors(samples).numpy()
    model.told.embeddings.assign(cats + np.random.default_rng(1).normal(size=cats.shape))
    assert np.abs(model.user_vectors(samples).numpy() - before)[0].max() > 1e-5


def test_categories_learn_to_stand_for_items_whose_ids_are_dropped(catalogue: Path) -> None:
    model = with_categories(catalogue, id_dropout=0.5)
    assert model.told is not None
    samples = batch(HISTORIES, TARGETS) | {"cat": tf.constant([4, 3, 3, 2])}
    rows = []
    for step in range(8):
        with tf.GradientTape() as tape, draws_at(1, np.array([step, 0], np.int32)):
            _, terms = model.loss_terms(samples, {}, ALL)
            loss = tf.reduce_sum(terms[NEXT_ITEM].total)
        of_items, of_categories = tape.gradient(loss, [model.items, model.told.embeddings])
        rows.append(np.abs(of_items.numpy()).max(1)[3:] > 0)
        assert (np.abs(of_categories.numpy()).max(1)[3:] > 0).all()
    assert 0.25 < np.mean(rows) < 0.75


def test_item_features_need_a_catalogue(tmp_path: Path) -> None:
    with pytest.raises(KfrecError, match=r"item_features=categories: .*catalogue.parquet is missing; prepare them"):
        with_categories(tmp_path)
    with pytest.raises(KfrecError, match="names no vocabulary of items and their categories"):
        SasRec(replace(SMALL, item_features="categories"), spec_of(), seed=1)


def test_only_the_target_is_learned_after_histories_of_other_kinds_of_events(model: SasRec) -> None:
    noted = {"encoding": {"sampling": {"target_kinds": ["purchase"]}}}
    other = SasRec(SMALL, replace(spec_of(), metadata=noted), seed=1)
    _, terms = other.loss_terms(batch(HISTORIES, TARGETS), {}, ALL)
    _, of_targets = model.loss_terms(batch(HISTORIES, TARGETS), {}, ALL, training=False)
    np.testing.assert_allclose(terms[NEXT_ITEM].total, of_targets[NEXT_ITEM].total, rtol=1e-5)
    assert terms[NEXT_ITEM].count.numpy().tolist() == [1] * len(TARGETS)


def weighing(spec: FeatureSpec) -> FeatureSpec:
    """The specification with the weights of the history's items and of the target."""
    weights = Feature("weights", "float32", None, LENGTH + 1)
    features, channels = {**spec.features, "weights": weights}, {**spec.channels, Channel.WEIGHT: ("weights",)}
    return replace(spec, features=features, channels=channels)


def test_each_item_counts_by_its_weight_in_training_alone(model: SasRec) -> None:
    weighted = SasRec(SMALL, weighing(spec_of()), seed=1)
    history, target = [3, 1, 4], 8
    samples = batch([history], [target]) | {"weights": tf.constant([[0, 0, 0, 1.0, 0.5, 0.0, 2.0]])}
    _, terms = weighted.loss_terms(samples, {}, ALL[:1])
    losses = [-log_softmax(model, before)[item - 1] for before, item in (([], 3), ([3], 1), (history, target))]
    assert terms[NEXT_ITEM].total.numpy()[0] == pytest.approx(np.dot([1, 0.5, 2], losses), rel=1e-5)
    assert terms[NEXT_ITEM].count.numpy()[0] == 3.5
    _, judged = weighted.loss_terms(batch([history], [target]), {}, ALL[:1], training=False)
    assert (judged[NEXT_ITEM].total.numpy()[0], judged[NEXT_ITEM].count.numpy()[0]) == (
        pytest.approx(losses[-1], rel=1e-5), 1
    )  # fmt: skip


def test_items_of_the_next_day_count_by_their_weights() -> None:
    spec = weighing(spec_of())
    days = Feature("days", "int32", None, LENGTH)
    channels = {**spec.channels, Channel.DAYS: (days.name,)}
    nightly = SasRec(SMALL, replace(spec, features={**spec.features, days.name: days}, channels=channels), seed=1)
    # Days of 3, of 4, and of the target's 8: each state has one item to find.
    samples = batch([[3, 4]], [8]) | {days.name: tf.constant([[3, 3, 3, 3, 2, 1]])}
    samples |= {"weights": tf.constant([[0, 0, 0, 0, 0.25, 0.5, 2.0]])}
    with draws_at(1, tf.constant([0, 0])):
        _, terms = nightly.loss_terms(samples, {}, ALL[:1])
    assert terms[NEXT_ITEM].count.numpy()[0] == 2.75


def test_for_lists_made_overnight_each_state_learns_an_item_of_the_next_day(model: SasRec) -> None:
    spec = spec_of()
    days = Feature("days", "int32", None, LENGTH)
    channels = {**spec.channels, Channel.DAYS: (days.name,)}
    nightly = SasRec(SMALL, replace(spec, features={**spec.features, days.name: days}, channels=channels), seed=1)
    # Days of 3 and 1, of 4, and of the target's 6 and 8.
    samples = batch([[3, 1, 4, 6]], [8]) | {days.name: tf.constant([[3, 3, 2, 2, 1, 0]])}
    learned = [([], {3, 1}), ([3], {4}), ([3, 1], {4}), ([3, 1, 4], {6, 8})]
    possible = {
        round(sum(-log_softmax(model, history)[item - 1] for (history, _), item in zip(learned, items, strict=True)), 4)
        for items in product(*(wanted for _, wanted in learned))
    }
    found = set()
    for step in range(20):
        with draws_at(1, tf.constant([step, 0])):
            _, terms = nightly.loss_terms(samples, {}, ALL)
        assert terms[NEXT_ITEM].count.numpy().tolist() == [len(learned)]
        found.add(min(possible, key=lambda each: abs(each - terms[NEXT_ITEM].total.numpy()[0])))
        assert min(abs(each - terms[NEXT_ITEM].total.numpy()[0]) for each in possible) < 1e-3
    assert len(found) > 1
    # What validates is the target, as in lists.
    _, judged = nightly.loss_terms(samples, {}, ALL, training=False)
    assert judged[NEXT_ITEM].total.numpy()[0] == pytest.approx(-log_softmax(model, [3, 1, 4, 6])[7], rel=1e-5)


def test_a_softmax_over_a_batch_needs_the_counts_of_targets() -> None:
    for sampling in ({"weighted": True}, {"target_kinds": ["purchase"]}):
        spec = replace(spec_of(), metadata={"encoding": {"sampling": sampling}})
        with pytest.raises(KfrecError, match=r"softmax=batch is corrected by .*; set softmax=all_items"):
            SasRec(replace(SMALL, softmax="batch"), spec, seed=1)


def test_padding_changes_nothing(model: SasRec) -> None:
    longer = SasRec(SMALL, spec_of(LENGTH + 3), seed=1)
    for variable, other in zip(longer.variables, model.variables, strict=True):
        if variable.shape == other.shape:
            variable.assign(other)
    longer.positions[: LENGTH + 1].assign(model.positions)
    short = model.outputs(batch(HISTORIES, TARGETS))[LOG_LIKELIHOOD]
    padding = longer.outputs(batch(HISTORIES, TARGETS, LENGTH + 3))[LOG_LIKELIHOOD]
    # The first history is full only in the shorter window; with padding it has a beginning.
    np.testing.assert_allclose(padding[1:], short[1:], atol=1e-5)


def test_the_loss_over_a_batch_is_corrected_for_the_items_shares() -> None:
    model = SasRec(replace(SMALL, softmax="batch"), spec_of(), seed=1)
    mask = tf.constant([True, True, False])
    histories, targets = [[2, 6], [5], [4]], [5, 3, 1]
    _, terms = model.loss_terms(batch(histories, targets), {}, mask)
    # The next items of the batch, of which those of the last sample are padding; each occurs equally often in the data.
    wanted = [2, 6, 5, 5, 3]
    given = [[], [2], [2, 6], [], [5]]
    items, losses = model.items.numpy().astype(np.float64), []
    for history, item in zip(given, wanted, strict=True):
        vector = model.user_vectors({"item_sequence": padded([history])}).numpy()[0]
        others = np.array([items[other] @ vector for other in wanted if other != item])
        own = items[item] @ vector
        losses.append(np.log(np.exp(own) + np.exp(others).sum()) - own)
    assert terms[NEXT_ITEM].total.numpy()[0] == pytest.approx(sum(losses[:3]), rel=1e-4)
    assert terms[NEXT_ITEM].total.numpy()[1] == pytest.approx(sum(losses[3:]), rel=1e-4)


@pytest.mark.parametrize("keeps_seen", [False, True])
def test_ranks_in_blocks_with_ties_and_items_that_are_none(keeps_seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.models.layers.ranks._BLOCK", 7)
    random = np.random.default_rng(1)
    # Few distinct scores, exact in float32, so that there are ties.
    items = random.integers(-2, 3, (50, 2)).astype(np.float32)
    state = random.integers(-2, 3, (200, 2)).astype(np.float32)
    is_item = np.arange(50) >= 3
    target, seen = random.integers(0, 50, 200), random.integers(0, 50, (200, 9))
    left_out = None if keeps_seen else tf.constant(seen)
    ranked = rank_targets(tf.constant(state), tf.Variable(items), 3, tf.constant(target), left_out)
    by_scores = rank_scores(tf.constant(state @ items.T), 3, tf.constant(target), left_out)
    np.testing.assert_array_equal(by_scores, ranked.rank)
    ranks, likelihoods, scores = ranked.rank.numpy(), ranked.log_likelihood.numpy(), state @ items.T
    for row in range(200):
        if not is_item[target[row]]:
            assert ranks[row] == LONGEST_LIST + 1  # in no list, although there are 47 items
            continue
        out = [] if keeps_seen else seen[row]
        rivals = [item for item in range(50) if is_item[item] and item not in out and item != target[row]]
        own, others = scores[row, target[row]], scores[row, rivals]
        among = 1 + (others > own).sum() + (others == own).sum() / 2
        assert ranks[row] == (LONGEST_LIST + 1 if target[row] in out else among)
        known = scores[row, is_item].astype(np.float64)
        expected = own - known.max() - np.log(np.exp(known - known.max()).sum())
        assert likelihoods[row] == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_it_learns_what_follows_what() -> None:
    """Users step through the items in a circle, by 1 or by 2: the last two items tell which."""
    random = np.random.default_rng(2)
    start, step, length = random.integers(0, ITEMS, 64), random.integers(1, 3, 64), random.integers(2, LENGTH + 1, 64)
    events = [[int((s + d * place) % ITEMS) + 1 for place in range(n + 1)]
              for s, d, n in zip(start, step, length, strict=True)]  # fmt: skip
    features = batch([each[:-1] for each in events], [each[-1] for each in events])
    model = SasRec(replace(SMALL, item_dim=16, state_dropout=0.1), spec_of(), seed=3)
    optimizer = make_optimizer("adam", 0.01)
    optimizer.build(model.trainable_variables)

    @tf.function
    def train(position: tf.Tensor) -> tf.Tensor:
        with draws_at(seed=4, position=position), tf.GradientTape() as tape:
            _, terms = model.loss_terms(features, {}, tf.ones([64], tf.bool))
            loss = loss_of(terms.values())
        optimizer.apply(
            list(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        )
        return loss

    for number in range(150):
        train(tf.constant([number, 0], tf.int32))
    # A target that is in its own history is in no list.
    new = np.array([each[-1] not in each[:-1] for each in events])
    assert (model.outputs(features)[RANK].numpy()[new] == 1).mean() > 0.95


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"attention_heads": 3}, "parameter attention_heads=3 does not divide item_dim=64; choose a divisor"),
        ({"softmax": "batch", "micro_batch_size": 8}, "parameter softmax=batch compares .* set micro_batch_size=0, or"),
        ({"softmax": "batch", "xla": True, "workers": 2}, "parameter xla=True: XLA cannot compile softmax=batch on"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(changed: dict[str, Any], message: str) -> None:
    parameters = STEPS["train"].of(model_type="sasrec", **changed)
    with pytest.raises(KfrecError, match=f"^{message}"):
        MODEL.check(parameters, {})


HELD = [[2, 6], [5], [4, 4, 8], [7]], [5, 3, 1, 9]


def rank_main(ranks: Ranks, folder: Path) -> None:
    """Half of HELD a rank."""
    part = slice(2 * ranks.rank, 2 * ranks.rank + 2)
    seen = Batch(ranks.rank, lambda values, name: ranks.sum([values], name)[0], ranks.gather_rows)
    found = losses_of(HELD[0][part], HELD[1][part], seen)
    (folder / f"{ranks.rank}.json").write_text(json.dumps(found))


def losses_of(histories: list[list[int]], targets: list[int], seen: Batch) -> list[float]:
    model, features = SasRec(replace(SMALL, softmax="batch"), spec_of(), seed=1), batch(histories, targets)

    @tf.function
    def losses() -> tf.Tensor:
        with training_back_end(), global_batch(seen):
            _, terms = model.loss_terms(features, {}, tf.ones([len(targets)], tf.bool))
            return terms[NEXT_ITEM].total

    return losses().numpy().tolist()


@pytest.mark.slow
def test_two_ranks_have_the_loss_over_the_global_batch_of_one(two_ranks: Path) -> None:
    parts = [json.loads((two_ranks / __name__ / f"{rank}.json").read_text()) for rank in range(2)]
    np.testing.assert_allclose([*parts[0], *parts[1]], losses_of(*HELD, Batch()), rtol=1e-4)
