"""SIM against its description, one sample at a time, with the k best items gathered as published."""

from contextlib import nullcontext

import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.classifier import Classifier
from components.models.loss import sum_of
from components.models.sequences import trimmed_histories
from components.models.sim import model as sim
from tests.models.calling import logits, loss_terms
from tests.train.building import build_model

SHORT, FOUND = 3, 2


@pytest.fixture
def model(spec, parameters, monkeypatch) -> sim.Sim:
    """A model whose search finds 2 of 5 items, with weights large enough to tell items apart."""
    monkeypatch.setattr(sim, "FOUND_ITEMS", FOUND)
    model = build_model(parameters("sim"), spec)
    assert isinstance(model, sim.Sim)
    model.inputs.embedding.tables.assign(model.inputs.embedding.tables * 3.0)
    return model


def _softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def _classify(classifier: Classifier, *parts: np.ndarray) -> float:
    return float(classifier(tf.constant(np.concatenate(parts)[None], tf.float32))[0])


def _embed(model: sim.Sim, index: int, ids: np.ndarray) -> np.ndarray:
    return model.inputs.embedding.table(index).numpy()[ids]


def _expected_logits(model: sim.Sim, features: dict[str, np.ndarray], row: int) -> tuple[float, float]:
    """Stage one's and stage two's logit of one sample."""
    ids = {name: values[row] for name, values in features.items()}
    target = np.concatenate([_embed(model, 0, ids["item_trgt"]), _embed(model, 1, ids["cat_trgt"])])
    history = np.concatenate([_embed(model, 0, ids["item_pos"]), _embed(model, 1, ids["cat_pos"])], 1)
    user = _embed(model, 2, ids["uid"])
    present = ids["item_pos"] > 0
    long = history[:-SHORT][present[:-SHORT]]

    searched = attended = mean = np.zeros_like(target)
    if len(long):
        attention = _softmax(long @ target)
        searched = attention @ long
        found = long[np.argsort(-attention, kind="stable")[:FOUND]]
        attended = _softmax(found @ target) @ found
        mean = found.sum(0) / (len(found) + 1)
    short = tf.constant((history * present[:, None])[-SHORT:, None], tf.float32)
    interest, _ = model.evolution(short, tf.constant(present[None, -SHORT:]), tf.constant(target[None], tf.float32))
    return (
        _classify(model.stage_one, target, searched, user),
        _classify(model.stage_two, attended, mean, target, interest[0].numpy(), user),
    )


def test_the_logits_are_those_of_the_description(model, make_batch):
    features, labels = make_batch(18)
    expected = np.array([_expected_logits(model, features, row) for row in range(18)])
    found, terms = loss_terms(model, features, labels)
    np.testing.assert_allclose(found, expected[:, 1], atol=1e-5)
    losses = np.log1p(np.exp(-expected * np.where(labels > 0, 1, -1)[:, None])).sum(0)
    np.testing.assert_allclose([sum_of(terms["stage_one"].total), sum_of(terms["stage_two"].total)], losses, rtol=1e-5)


@pytest.mark.parametrize("trimmed", [False, True])
def test_what_the_search_found_has_its_attention_at_its_place_in_the_history(model, make_batch, trimmed):
    features, _ = make_batch(18, history=[i % 7 for i in range(18)])
    with trimmed_histories() if trimmed else nullcontext():
        weights = model.explain({name: tf.constant(ids) for name, ids in features.items()})["search"].numpy()
    assert weights.shape == features["item_pos"].shape
    for row, found in enumerate(weights):
        ids = {name: values[row] for name, values in features.items()}
        target = np.concatenate([_embed(model, 0, ids["item_trgt"]), _embed(model, 1, ids["cat_trgt"])])
        places = np.flatnonzero(ids["item_pos"][:-SHORT])
        np.testing.assert_array_equal(np.delete(found, places), -1)
        if len(places):
            history = np.concatenate([_embed(model, 0, ids["item_pos"]), _embed(model, 1, ids["cat_pos"])], 1)[places]
            attention, taken = _softmax(history @ target), found[places] > 0
            assert np.count_nonzero(taken) == min(FOUND, len(places))
            # Items of nearly the same attention may be found in either order.
            assert attention[taken].min() >= attention[~taken].max(initial=0) - 1e-5
            np.testing.assert_allclose(found[places], np.where(taken, attention, 0), atol=1e-5)


def test_both_stages_count_half_and_the_auxiliary_loss_in_full(model, make_batch):
    _, terms = loss_terms(model, *make_batch(9))
    assert {name: term.weight for name, term in terms.items()} == {"stage_one": 0.5, "stage_two": 0.5, "auxiliary": 1.0}


def test_the_auxiliary_loss_has_the_weight_that_the_parameters_give(parameters, spec, make_batch):
    given = parameters("sim", aux_loss_weight=2.0, aux_loss_padding=True)
    features, labels = make_batch(9)
    _, terms = loss_terms(build_model(given, spec, seed=1), features, labels)
    assert terms["auxiliary"].weight == 2.0
    assert float(sum_of(terms["auxiliary"].count)) == 9 * (SHORT - 1)


def test_what_stands_at_padded_positions_does_not_matter(model, make_batch):
    features, _ = make_batch(9)
    before = logits(model, features)
    features["cat_pos"] = np.where(features["item_pos"] > 0, features["cat_pos"], 3)
    np.testing.assert_allclose(logits(model, features), before, atol=1e-6)
