"""The lists of two stages, of a retrieval by known scores or by vectors, are those of their definitions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from components.artifacts import adopt
from components.errors import KfrecError
from components.feature_spec import FeatureSpec, load_feature_spec
from components.models import Model
from components.models.item_knn import ItemKnnParameters
from components.models.item_knn.model import ItemKnn, count_pairs
from components.models.sasrec import SasRecParameters
from components.models.sasrec.model import SasRec
from components.scoring import load_raw_model
from components.scoring.catalogue import LIKELIHOOD, UNSEEN, Catalogue
from components.scoring.choices import Choices
from components.scoring.recommend import recommend
from components.scoring.two_stages import TwoStages, Weights
from components.scoring.weighing import weighed
from components.tasks.next_item import TASK
from components.train.export import export
from tests.fakes.known_scores import add_counts, make_known_model, make_known_retriever
from tests.fakes.small_shop import FIRST_ID, NAMES, make_data

# Distinct, and far enough apart for any rounding.
RETRIEVAL = {name: float((place * 37) % 61) for place, name in enumerate(NAMES)}
RANKING = {name: float((place * 23) % 67) / 10 for place, name in enumerate(NAMES)}
HISTORIES = [list(NAMES[3:9]), [], [max(NAMES, key=lambda name: RETRIEVAL[name])]]
USERS = ["U1", "U2", "nobody"]


@pytest.fixture(scope="module", params=[False, True])
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Catalogue, Catalogue]:
    place = tmp_path_factory.mktemp("shop")
    data = make_data(place / "tfrecord", dataset="amazon_reviews")
    add_counts(data, dict.fromkeys(NAMES, 7))
    make_known_model(place / "first", data, RETRIEVAL)
    make_known_model(place / "second", data, RANKING, shared=request.param)
    return Catalogue(load_raw_model(place / "first")), Catalogue(load_raw_model(place / "second"))


def test_excluded_items_leave_room_for_others(models: tuple[Catalogue, Catalogue]) -> None:
    first = recommend(TwoStages(*models, retrieved=3), ["U2"], [[]], 3).table["item"].to_pylist()
    found = recommend(TwoStages(*models, retrieved=3), ["U2"], [[]], 3, excluded=[first])
    assert found.candidates.tolist() == [3] and not set(found.table["item"].to_pylist()) & set(first)


@pytest.mark.parametrize("keep_seen", [False, True])
def test_the_best_of_the_retrieved_ones_are_listed(models: tuple[Catalogue, Catalogue], keep_seen: bool) -> None:
    found = recommend(TwoStages(*models, retrieved=8), USERS, HISTORIES, 5, keep_seen=keep_seen)
    table = found.table.to_pandas()
    for user, history in zip(USERS, HISTORIES, strict=True):
        ordered = sorted(NAMES, key=lambda name: -RETRIEVAL[name])[: 8 + len(history)]
        retrieved = ordered if keep_seen else [name for name in ordered if name not in history]
        expected = sorted(retrieved, key=lambda name: -RANKING[name])[:5]
        assert table[table["user"] == user]["item"].tolist() == expected
        assert 0.2 < table[table["user"] == user][LIKELIHOOD].sum() < 1


@pytest.mark.parametrize("boosted", [1.0, 3.0])
def test_a_weighed_order_is_that_of_its_definition(boosted: float, tmp_path: Path) -> None:
    counts, raised = {name: 7 + place for place, name in enumerate(NAMES)}, NAMES[10]
    data = make_data(tmp_path / "tfrecord", dataset="amazon_reviews")
    add_counts(data, counts)
    boosts = np.array([boosted if name == raised else 1.0 for name in NAMES])
    first, second = (
        Catalogue(load_raw_model(folder), pa.array(NAMES), boosts)
        for folder in (
            make_known_retriever(tmp_path / "first", data, RETRIEVAL),
            make_known_model(tmp_path / "second", data, RANKING),
        )
    )
    stages = TwoStages(first, second, 60, Weights(0.05, 0.5, -1.5))
    table = recommend(stages, ["U1"], [list(NAMES[3:9])], 60).table.to_pandas()
    # The score of the second stage, a likelihood, has the logarithm of the count in it.
    masses = {
        name: np.exp(0.05 * RETRIEVAL[name] + 0.5 * RANKING[name] - np.log(counts[name]))
        * (boosted if name == raised else 1.0)
        for name in NAMES
        if name not in NAMES[3:9]
    }
    likelihoods = np.array([masses[name] / sum(masses.values()) for name in table["item"]])
    assert len(table) == len(masses) and (likelihoods[1:] < 1.01 * likelihoods[:-1]).all()
    np.testing.assert_allclose(table[LIKELIHOOD], likelihoods, rtol=0.01)


def test_weights_are_found_from_choices_among_unseen_retrieved_items(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    counts = {name: int(count) for name, count in zip(NAMES, random.integers(1, 1000, len(NAMES)), strict=True)}
    first, second = ({name: float(value) for name, value in zip(NAMES, values, strict=True)}
                     for values in random.normal(size=(2, len(NAMES))))  # fmt: skip
    data = make_data(tmp_path / "tfrecord", dataset="amazon_reviews")
    add_counts(data, counts)
    stages = TwoStages(
        Catalogue(load_raw_model(make_known_retriever(tmp_path / "first", data, first))),
        Catalogue(load_raw_model(make_known_model(tmp_path / "second", data, second))),
        retrieved=40,
    )
    wanted, retrieved = Weights(0.9, 0.7, -0.4), sorted(NAMES, key=lambda name: -first[name])
    seen, found = retrieved[:3], retrieved[3:43]
    logs = {name: np.log(counts[name]) for name in found}
    scores = np.array([0.9 * first[name] + 0.7 * (second[name] + logs[name]) - 0.4 * logs[name] for name in found])
    shares = np.exp(scores) / np.exp(scores).sum()
    # Choices that are not retrieved, or that no vocabulary has, say nothing.
    chosen = [*random.choice(found, 3000, p=shares), *retrieved[43:], "gone"]
    count = len(chosen)
    choices = Choices(
        pa.array(["U2"] * count), pa.array([seen] * count), pa.array(chosen, pa.string()), np.arange(count)
    )
    np.testing.assert_allclose(weighed(stages, choices), wanted, atol=0.12)
    nothing = Choices(*(each[-1:] for each in choices))
    assert weighed(stages, nothing) == Weights(1.0, 0.0, 0.0)


def test_fewer_retrieved_than_listed_give_a_shorter_list(models: tuple[Catalogue, Catalogue]) -> None:
    found = recommend(TwoStages(*models, retrieved=3), ["U2"], [[]], 5)
    assert found.table.num_rows == 3


def test_retrieved_items_whose_scores_are_not_trained_end_the_list(tmp_path: Path) -> None:
    ordered = sorted(NAMES, key=lambda name: -RETRIEVAL[name])
    catalogues = []
    for stage, scores, unseen in (("first", RETRIEVAL, ()), ("second", RANKING, ordered[:2])):
        data = make_data(tmp_path / stage / "tfrecord", dataset="amazon_reviews")
        add_counts(data, {name: 7 for name in NAMES if name not in unseen})
        catalogues.append(Catalogue(load_raw_model(make_known_model(tmp_path / stage / "model", data, scores))))
    table = recommend(TwoStages(catalogues[0], catalogues[1], retrieved=8), ["U2"], [[]], 8).table.to_pandas()
    assert set(table["item"][:6]) == set(ordered[2:8]) and set(table["item"][6:]) == set(ordered[:2])
    assert table["flag"].tolist() == [""] * 6 + [UNSEEN] * 2


def test_models_without_a_common_item_are_refused(tmp_path: Path) -> None:
    catalogues = []
    for stage, letter in (("first", "A"), ("second", "B")):
        names = [letter + name for name in NAMES]
        data = make_data(tmp_path / stage / "tfrecord", names=names, dataset="amazon_reviews")
        catalogues.append(Catalogue(load_raw_model(make_known_model(tmp_path / stage / "model", data, {}))))
    with pytest.raises(KfrecError, match="none of the 60 items of the retrieval model is one of the 60 of the ranking"):
        TwoStages(catalogues[0], catalogues[1], retrieved=8)


def sasrec(spec: FeatureSpec) -> Model:
    model = SasRec(
        SasRecParameters(item_dim=8, attention_layers=1, attention_heads=2, feed_forward_dim=8), spec, seed=1
    )
    model.items.assign(np.random.default_rng(1).normal(size=model.items.shape))
    return model


def item_knn(spec: FeatureSpec) -> Model:
    model = ItemKnn(ItemKnnParameters(), spec, seed=1)
    rows = model.popularity.shape[0]
    model.fit(count_pairs([np.random.default_rng(1).integers(FIRST_ID, rows, (300, 6))], rows, distance=3))
    return model


@pytest.mark.parametrize("build", [sasrec, item_knn])
def test_a_retrieval_ranks_as_the_likelihood_does(build: Callable[[FeatureSpec], Model], tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", dataset="amazon_reviews")
    add_counts(data, dict.fromkeys(NAMES, 7))
    spec = load_feature_spec(data)
    model = build(spec)
    lengths = {name: spec.features[name].length for name in model.serving_features}
    shapes = {name: tf.TensorSpec([None, *filter(None, [length])], tf.int32) for name, length in lengths.items()}
    folder = tmp_path / "model"
    folder.mkdir()
    export(model, TASK, shapes, folder / "saved_model")
    shutil.copy(data / "feature_spec.yaml", folder)
    shutil.copytree(data / "vocabulary", folder / "vocabulary")
    adopt(folder)
    # Another order than that of the ids.
    catalogue = Catalogue(load_raw_model(folder), pa.array(NAMES[::-1]))
    assert catalogue.value == LIKELIHOOD and not catalogue.scores_pairs
    history, bought = list(NAMES[:3]), list(NAMES[10:20])
    inputs, _ = catalogue.encoded(pa.array(["U1"]), pa.array([history], pa.list_(pa.string())))
    (scores,) = catalogue.scores(inputs, 1)
    rows = {"item": catalogue.names.cast(pa.string()), "history": pa.array([history], pa.list_(pa.string()))}
    likelihoods = catalogue.raw.score(rows).outputs["log_likelihood"]
    np.testing.assert_allclose(scores - scores[0], likelihoods - likelihoods[0], atol=1e-4)
    found = recommend(catalogue, ["U1"], [history], 60, excluded=[bought]).table
    assert set(found["item"].to_pylist()) == {*NAMES} - {*history, *bought}
    assert found[LIKELIHOOD].to_pylist() == sorted(found[LIKELIHOOD].to_pylist(), reverse=True)
    assert sum(found[LIKELIHOOD].to_pylist()) == pytest.approx(1, rel=1e-5)


def test_lists_by_vectors_are_those_of_the_definition(tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", dataset="amazon_reviews")
    add_counts(data, {name: 7 for name in NAMES if name != NAMES[5]})
    found = Catalogue(load_raw_model(make_known_retriever(tmp_path / "model", data, RETRIEVAL)))
    histories = [list(NAMES[3:9]), [], [NAMES[5]], list(NAMES), [*NAMES[:30], "gone", NAMES[40]]] * 3
    excluded = [[], [NAMES[0], "gone"], [], [], list(NAMES[30:40])] * 3
    lists = recommend(found, [f"U{place}" for place in range(15)], histories, 4, excluded=excluded)
    table = lists.table.to_pandas()
    for user, (history, without) in enumerate(zip(histories, excluded, strict=True)):
        left = [name for name in NAMES if name not in {*history, *without}]
        if user % 5 == 2:  # the history holds nothing that was learned, so the list is of popular items
            ordered, weights = left, [1 / (len(left) + 0.5)] * 4
        else:
            ordered = sorted(left, key=lambda name: (name == NAMES[5], -RETRIEVAL[name]))
            total = np.exp([RETRIEVAL[name] for name in left]).sum()
            weights = [np.exp(RETRIEVAL[name]) / total for name in ordered[:4]]
        own = table[table["user"] == f"U{user}"]
        assert own["item"].tolist() == ordered[:4] and own["rank"].tolist() == list(range(1, 1 + len(own)))
        np.testing.assert_allclose(own[LIKELIHOOD], weights[: len(own)], rtol=0.02 if user % 5 == 2 else 1e-5)
        assert lists.candidates[user] == len(left)
