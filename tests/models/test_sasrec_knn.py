"""SASRec and item-kNN, mixed: the likelihood by its formula, and ranks that follow it."""

from __future__ import annotations

import numpy as np

from components.contract import LOG_LIKELIHOOD
from components.models.draws import draws_at
from components.models.item_knn.model import RANK, ItemKnn
from components.models.model import Retrieving
from components.models.sasrec.model import NEXT_ITEM, SasRec
from components.models.sasrec_knn import MODEL, SasRecKnnParameters
from components.models.sasrec_knn.model import NEIGHBOURS, SasRecKnn
from tests.models.test_item_knn import ALL, WINDOWS, batch, spec_of

SETTINGS = SasRecKnnParameters(item_dim=8, feed_forward_dim=16, neighbours=2, knn_share=0.25)


def fitted(seen_items: str = "keep") -> SasRecKnn:
    model = SasRecKnn(SETTINGS, spec_of(seen_items), seed=1)
    model.fit(model.count([{"item_sequence": WINDOWS[:, :-1], "item": WINDOWS[:, -1]}]))
    return model


def test_the_likelihood_is_a_mixture_of_both_and_sums_to_one() -> None:
    model = fitted()
    features = batch([[2, 3], []], [1, 4])
    mixed = model.item_scores(features).numpy()
    by_sasrec, by_knn = SasRec(SETTINGS, spec_of("keep"), seed=1), ItemKnn(SETTINGS, spec_of("keep"), seed=1)
    by_knn.fit(by_knn.count([{"item_sequence": WINDOWS[:, :-1], "item": WINDOWS[:, -1]}]))
    for item in range(1, len(mixed[0])):
        asked = batch([[2, 3], []], [item, item])
        parts = [np.exp(each.outputs(asked)[LOG_LIKELIHOOD].numpy()) for each in (by_sasrec, by_knn)]
        np.testing.assert_allclose(np.exp(mixed[:, item]), 0.75 * parts[0] + 0.25 * parts[1], rtol=1e-4)
    np.testing.assert_allclose(np.exp(mixed[:, 1:]).sum(1), 1, rtol=1e-4)


def test_ranks_follow_the_mixture_and_leave_seen_items_out() -> None:
    features = batch([[2, 3], []], [1, 4])
    for seen_items, left_out in (("keep", []), ("exclude", [2, 3])):
        model = fitted(seen_items)
        scores, outputs = model.item_scores(features).numpy(), model.outputs(features)
        np.testing.assert_allclose(outputs[LOG_LIKELIHOOD], [scores[0, 1], scores[1, 4]], rtol=1e-5)
        ahead = [item for item in range(1, scores.shape[1]) if scores[0, item] > scores[0, 1] and item not in left_out]
        assert outputs[RANK][0] == len(ahead) + 1


def test_each_model_learns_by_its_own_loss() -> None:
    model, features = fitted(), batch([[2, 3], [1]], [1, 2])
    with draws_at(1):
        outputs, terms = model.loss_terms(features, {}, ALL)
    with draws_at(1):
        by_sasrec, of_sasrec = model.sasrec.loss_terms(features, {}, ALL)
    by_knn, of_knn = model.knn.loss_terms(features, {}, ALL)
    assert terms.keys() == {NEXT_ITEM, NEIGHBOURS}
    for term, alone in ((terms[NEXT_ITEM], of_sasrec[NEXT_ITEM]), (terms[NEIGHBOURS], of_knn[NEXT_ITEM])):
        np.testing.assert_allclose(term.total, alone.total, rtol=1e-6)
        assert term.weight == alone.weight == 1
    likelihoods = [np.exp(each[LOG_LIKELIHOOD].numpy()) for each in (by_sasrec, by_knn)]
    np.testing.assert_allclose(
        np.exp(outputs[LOG_LIKELIHOOD]), 0.75 * likelihoods[0] + 0.25 * likelihoods[1], rtol=1e-4
    )


def test_it_has_no_vectors_that_order_items() -> None:
    assert not isinstance(fitted(), Retrieving) and MODEL.retrieves
