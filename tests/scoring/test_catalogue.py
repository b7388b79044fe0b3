"""Ranks, likelihoods and flags of a catalogue, for a model of known log-odds and known counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.artifacts import adopt
from components.contract import LONGEST_LIST
from components.datasets.histories.catalogue import Popularity as PopularityOfPairs
from components.datasets.histories.catalogue import write_catalogue
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.feature_spec.catalogue import TITLES
from components.scoring import load_raw_model, scoring_translation
from components.scoring.catalogue import LIFT, LIKELIHOOD, NEW_ITEM, POPULAR, UNKNOWN_ITEM, UNSEEN, Catalogue
from components.scoring.choices import choices_in, ranks_of
from components.scoring.newcomers import Popularity
from components.scoring.ranked_users import rank_test_users
from components.scoring.recommend import recommend
from tests.fakes.known_scores import add_counts, make_known_model
from tests.fakes.raw_rows import raw_rows
from tests.fakes.small_shop import FIRST_ID, NAMES, make_data

NOBODY = np.zeros(0, np.int64)
# Of equal smoothed share: count + 10,000 * reviews / all reviews, all in the same proportion as the counts.
COUNTS = dict.fromkeys(NAMES, 10) | {"B001": 1000, "B002": 200, "B059": 0}
# Distinct, so that rounding cannot change an order.
LOGITS = {name: -0.02 * place for place, name in enumerate(NAMES)}
LOGITS |= {"B001": -1.0, "B002": 0.5, "B003": 2.0, "B059": 4.0}


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Records and a model of them in one folder: with counts or without, sharing users' computations or not."""
    made: dict[tuple[bool, bool, str], Path] = {}

    def folder(counts: bool = True, shared: bool = False, seen_items: str = "") -> Path:
        if (counts, shared, seen_items) not in made:
            place = tmp_path_factory.mktemp("shop")
            data = make_data(place / "tfrecord", dataset="amazon_reviews", seen_items=seen_items)
            if counts:
                add_counts(data, COUNTS)
            make_known_model(place / "model", data, LOGITS, shared=shared)
            made[counts, shared, seen_items] = place
        return made[counts, shared, seen_items]

    return folder


def catalogue(folder: Path, candidates: list[str] | None = None) -> Catalogue:
    given = None if candidates is None else pa.array(candidates, pa.string())
    return Catalogue(load_raw_model(folder / "model"), given)


def scores_of(catalogue: Catalogue, history: list[str], user: str = "U1") -> np.ndarray:
    inputs, _ = catalogue.encoded(pa.array([user]), pa.array([history], pa.list_(pa.string())))
    (scores,) = catalogue.scores(inputs, 1)
    return scores


def test_the_score_is_the_logit_plus_the_log_of_the_sampling_share(make: Callable[..., Path]) -> None:
    found = catalogue(make())
    scores = dict(zip(found.names.to_pylist(), scores_of(found, ["B001"]).tolist(), strict=True))
    # B001 and B002 differ by ln(1000 / 200) in q and by -1.5 in the logit.
    assert scores["B001"] - scores["B002"] == pytest.approx(math.log(5) - 1.5, abs=1e-4)
    assert scores["B003"] - scores["B002"] == pytest.approx(1.5 - math.log(20), abs=1e-4)
    assert found.value == LIKELIHOOD and found.note == ""


def test_ids_of_events_are_left_out_and_listed_as_the_vocabulary_spells_them(tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", dataset="events")
    add_counts(data, COUNTS)
    make_known_model(tmp_path / "model", data, LOGITS)
    table = recommend(catalogue(tmp_path, ["B003 ", " B002", "B004", "B002"]), ["U1"], [["B003 ", "B009"]], 9).table
    assert table["item"].to_pylist() == ["B002", "B004"]


def test_no_rows_get_no_lists(make: Callable[..., Path]) -> None:
    assert recommend(catalogue(make()), [], [], 9).table.num_rows == 0


def test_logits_beyond_the_precision_of_a_probability_are_ranked(tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", dataset="amazon_reviews")
    add_counts(data, dict.fromkeys(NAMES, 1))
    surest = {name: 30.0 - 0.25 * place for place, name in enumerate(NAMES[:40])}
    make_known_model(tmp_path / "model", data, surest)
    found = catalogue(tmp_path)
    table = recommend(found, ["U1"], [[]], 40).table
    assert table["item"].to_pylist() == list(NAMES[:40])
    likelihoods = np.array(table["likelihood"].to_pylist())
    np.testing.assert_allclose(likelihoods[1:] / likelihoods[:-1], math.exp(-0.25), rtol=1e-5)


def test_a_model_without_logits_is_ranked_by_its_probabilities(make: Callable[..., Path], tmp_path: Path) -> None:
    make_known_model(tmp_path / "model", make() / "tfrecord", LOGITS, returns_logit=False)
    wanted, found = scores_of(catalogue(make()), ["B001"]), scores_of(catalogue(tmp_path), ["B001"])
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_likelihoods_of_the_candidates_that_are_left_sum_to_one(make: Callable[..., Path]) -> None:
    found = catalogue(make())
    scores = scores_of(found, ["B001"])
    scores[[1, 5]] = -np.inf
    left = np.flatnonzero(found.left(scores, NOBODY))
    values = found.values(scores[np.newaxis].copy(), np.zeros(len(left), np.int64), left)
    assert len(left) == len(found.names) - 2 and values.sum() == pytest.approx(1)
    assert values[1] / values[2] == pytest.approx(math.exp(scores[2] - scores[3]))


def test_without_counts_candidates_are_ranked_by_lift_and_it_is_said_why(make: Callable[..., Path]) -> None:
    found = catalogue(make(counts=False))
    assert found.value == LIFT and "written without the counts" in found.note
    scores = scores_of(found, ["B000"])
    first, place = np.array([0]), np.array([3])
    assert found.values(scores[np.newaxis], first, place) == pytest.approx(math.exp(2.0), rel=1e-4)
    assert found.best(scores, NOBODY, 2).tolist() == [59, 3]


def test_candidates_whose_scores_are_not_trained_are_flagged_and_never_before_others(make: Callable[..., Path]) -> None:
    found = catalogue(make(), ["B059", "new", "B000", "B003"])
    assert found.flags.tolist() == [UNSEEN, UNKNOWN_ITEM, "", ""]
    ranked = recommend(found, ["U1"], [["B001"]], 4).table
    assert ranked["item"].to_pylist()[:2] == ["B003", "B000"]
    assert ranked["flag"].to_pylist()[:2] == ["", ""] and set(ranked["flag"].to_pylist()[2:]) == {UNSEEN, UNKNOWN_ITEM}
    assert sum(ranked["likelihood"].to_pylist()) == pytest.approx(1)


def test_unknown_candidates_with_a_category_are_listed_by_their_share_of_it(make: Callable[..., Path]) -> None:
    names = pa.array(["B000", "new", "B003", "other", "newer"])
    found = Catalogue(load_raw_model(make() / "model"), names, None, pa.array(["x", "x", "x", None, "y"]))
    before = recommend(found, ["U1"], [["B001"]], 5).table.to_pydict()
    assert before["item"][:2] == ["B003", "B000"] and before["flag"] == ["", "", *[UNKNOWN_ITEM] * 3]
    assert found.lists_new
    # The new item has three recent events, the known ones of its category one, and 1/2 more each.
    found.list_new(np.array([1, 3, 0, 9, 9]))
    after = recommend(found, ["U1"], [["B001"]], 5).table.to_pydict()
    assert dict(zip(after["item"], after["flag"], strict=True)) == {
        "new": NEW_ITEM, "B003": "", "B000": "", "other": UNKNOWN_ITEM, "newer": UNKNOWN_ITEM,
    }  # fmt: skip
    assert after["item"][:3] == ["new", "B003", "B000"]
    likelihood = dict(zip(after["item"], after["likelihood"], strict=True))
    assert likelihood["new"] == pytest.approx(3.5 / 2 * (likelihood["B000"] + likelihood["B003"]))
    assert found.known_categories is not None and found.known_categories.tolist() == [0, 0, 0, 1, 2]
    assert not Catalogue(load_raw_model(make() / "model"), names).lists_new


def test_ties_get_the_mean_of_their_ranks_and_keep_the_order_of_the_candidates(make: Callable[..., Path]) -> None:
    found = catalogue(make(), ["B000", "B002", "B004", "B006"])
    scores = np.array([1.0, 2.0, 1.0, 1.0])
    assert [found.rank(scores, NOBODY, place) for place in range(4)] == [3, 1, 3, 3]
    assert found.rank(scores, np.array([1, 3]), 0) == 1.5
    assert found.best(scores, NOBODY, 3).tolist() == [1, 0, 2]


def test_a_flagged_target_ranks_behind_all_others(make: Callable[..., Path]) -> None:
    found = catalogue(make(), ["B000", "B059", "B002"])
    assert found.rank(np.array([1.0, 9.0, 2.0]), NOBODY, 1) == 3


def test_a_history_without_an_item_of_the_training_gets_popular_items_and_says_so(
    make: Callable[..., Path],
) -> None:
    found = catalogue(make())
    histories = [["B059", "new"], ["new"], ["B001"], []]
    table = recommend(found, ["U1"] * 4, histories, 3).table.to_pandas()
    assert table["item"].tolist()[:6] == ["B001", "B002", "B000"] * 2 and set(table["flag"][:6]) == {POPULAR}
    assert table["likelihood"][0] == pytest.approx(1000 / (sum(COUNTS.values()) + 5), rel=0.02)
    assert set(table["flag"][6:]) == {""} and table["item"][6] != "B001"
    alone = recommend(catalogue(make(counts=False)), ["U1"], [["new"]], 3).table.to_pandas()
    assert set(alone["flag"]) == {""}


def test_popular_items_of_the_historys_categories_come_first() -> None:
    popularity = Popularity(np.array([5.0, 0.0, 9.0, 2.0, 0.0]), np.array([7, 7, 8, 7, 9]))
    assert popularity.of_category.tolist() == [7, 7, 9, 7, 0]
    assert np.argsort(-popularity.scores(np.array([1]))).tolist()[:4] == [0, 3, 1, 2]
    assert np.argsort(-popularity.scores(NOBODY)).tolist()[:3] == [2, 0, 3]
    np.testing.assert_allclose(np.exp(popularity.scores(NOBODY)), np.array([5, 1, 9, 2, 1]) / 16)


def test_items_of_the_history_are_left_out_unless_they_are_kept(make: Callable[..., Path]) -> None:
    found = catalogue(make())
    history = ["B003", "B001", "gone", "B003"]
    without, kept = (recommend(found, ["U1"], [history], 60, keep_seen=keep) for keep in (False, True))
    assert not set(without.table["item"].to_pylist()) & set(history) and without.candidates.tolist() == [58]
    assert set(kept.table["item"].to_pylist()) == set(NAMES) and kept.candidates.tolist() == [60]
    assert without.unknown.tolist() == [1]


@pytest.mark.parametrize("keep_seen", [False, True])
def test_excluded_items_are_no_candidates_of_their_user(keep_seen: bool, make: Callable[..., Path]) -> None:
    found, histories, excluded = catalogue(make()), [["B003"], ["B003"]], [["B001", "gone", "B003"], []]
    lists = recommend(found, ["U1", "U2"], histories, 60, keep_seen=keep_seen, excluded=excluded)
    assert lists.candidates.tolist() == [58, 60 if keep_seen else 59]
    items = lists.table.to_pandas().groupby("user")["item"].agg(set)
    assert items["U1"] == set(NAMES) - {"B001", "B003"}
    assert items["U2"] == set(NAMES) - (set() if keep_seen else {"B003"})


@pytest.mark.slow
@pytest.mark.parametrize("part", [7, 25, 2048])
def test_lists_do_not_depend_on_the_users_beside_nor_on_parts_nor_on_the_signature(
    part: int, make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.scoring.model._PART", part)
    random = np.random.default_rng(1)
    users = [f"U{number}" for number in range(1, 21)]
    histories = [random.choice(NAMES, random.integers(0, 9)).tolist() for _ in users]
    found, sharing = catalogue(make()), catalogue(make(shared=True))
    assert sharing.raw.model.targets is not None
    alone = [recommend(found, [user], [history], 5) for user, history in zip(users, histories, strict=True)]
    wanted = pa.concat_tables([each.table for each in alone]).to_pandas()
    for each in (found, sharing):
        table = recommend(each, users, histories, 5).table.to_pandas()
        np.testing.assert_allclose(table.pop("likelihood"), wanted["likelihood"], rtol=1e-4)
        assert table.equals(wanted.drop(columns="likelihood"))


def test_a_test_users_target_has_its_place_in_the_recommended_list(make: Callable[..., Path], tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", rows=12, label=1, dataset="amazon_reviews")
    spec, raw = load_feature_spec(data), load_raw_model(make() / "model")
    ranked = rank_test_users(spec, raw, scoring_translation(spec, raw.model), users=1000, scores=10**6, top=5)
    rows = {row["user"]: row for row in raw_rows(data)}
    assert ranked is not None and len(rows) == 12 == len(ranked.ranks) and ranked.by == LIKELIHOOD
    found, wanted, lists = Catalogue(raw), [], []
    for user, row in rows.items():
        history = [item for item in row["history"] if item != row["item"]]
        best = recommend(found, [user], [history], 60).table["item"].to_pylist()
        wanted.append(1 + best.index(row["item"]))
        lists.append([int(item[1:]) for item in best[:5]])
    assert sorted(ranked.ranks.tolist()) == sorted(wanted) and len(set(wanted)) > 5
    assert sorted(ranked.lists.tolist()) == sorted(lists)
    shown = {(each.rank, *each.listed) for each in ranked.examples}
    assert len(ranked.examples) == 10
    assert shown <= {(rank, *(NAMES[place] for place in places)) for rank, places in zip(wanted, lists, strict=True)}
    # B001 is the most popular item.
    assert ranked.popularity_lists is not None and set(ranked.popularity_lists[:, 0]) <= {1, 2}


def test_example_lists_show_items_by_their_titles(make: Callable[..., Path], tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", rows=12, label=1, dataset="amazon_reviews")
    titled = NAMES[::2]
    pq.write_table(pa.table({"item": titled, "title": [f"Title of {name}" for name in titled]}), data / TITLES)
    adopt(data)
    raw = load_raw_model(make() / "model")
    ranked = rank_test_users(load_feature_spec(data), raw, {}, users=12, scores=10**6, top=20)
    assert ranked is not None
    shown = {item for each in ranked.examples for item in (*each.history, each.chosen, *each.listed)}
    assert shown <= {f"{name} (Title of {name})" if name in titled else name for name in NAMES}
    assert len(shown) > 30


@pytest.mark.parametrize("seen_items", ["", "exclude", "keep"])
def test_ranks_are_those_of_the_lists_whether_the_data_keep_seen_items_or_not(
    seen_items: str, make: Callable[..., Path], tmp_path: Path
) -> None:
    raw, bought = load_raw_model(make(seen_items=seen_items) / "model"), ["B001", "B002", "B003", "B040"]
    chosen = [(7, bought, "B040"), (8, bought, "B041")]
    spec = load_feature_spec(make_data(tmp_path / "again", dataset="amazon_reviews", chosen=chosen))
    found = Catalogue(raw)
    listed = recommend(found, ["U7"], [bought], 60).table["item"].to_pylist()
    wanted = {item: 1.0 + listed.index(item) if item in listed else LONGEST_LIST + 1 for item in ("B040", "B041")}
    assert ("B040" in listed) == (seen_items == "keep")
    ranked = rank_test_users(spec, raw, scoring_translation(spec, raw.model), users=9, scores=10**6, top=5)
    assert ranked is not None and sorted(ranked.ranks.tolist()) == sorted(wanted.values())
    assert all(listed[:5] == [NAMES[place] for place in places] for places in ranked.lists.tolist())
    choices = choices_in(spec, 9)
    assert dict(zip(choices.chosen.to_pylist(), ranks_of(found, choices).tolist(), strict=True)) == wanted
    for keep in (False, True):
        items = recommend(found, ["U7"], [bought], 60, keep_seen=keep).table["item"].to_pylist()
        assert set(bought).isdisjoint(items) != keep


def test_choices_are_all_those_of_some_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [(user, NAMES[: 1 + place], NAMES[10 + place]) for user in (5, 6, 7, 8) for place in range(4)]
    spec = load_feature_spec(make_data(tmp_path / "data", dataset="amazon_reviews", chosen=made, validating=made[:3]))
    found = choices_in(spec, 3)
    rows = list(zip(*(each.to_pylist() for each in found[:3]), found.owners.tolist(), strict=True))
    assert len({user for user, *_ in rows}) == 3 and rows == [
        (f"U{user}", list(history), item, user)
        for user, history, item in made
        if f"U{user}" in {row[0] for row in rows}
    ]
    assert choices_in(spec, 9, "validation").chosen.to_pylist() == list(NAMES[10:13])
    monkeypatch.setattr("components.scoring.choices._MOST", 9)
    assert len(choices_in(spec, 4).chosen) == 8
    monkeypatch.setattr("components.scoring.choices._MOST", 1)
    assert len(choices_in(spec, 4).chosen) == 4


def test_an_unknown_user_counts_once_with_the_newest_target(make: Callable[..., Path], tmp_path: Path) -> None:
    raw, unknown, known = load_raw_model(make() / "model"), 0, 7
    reviews = {unknown: [NAMES[10:15], NAMES[20:24]], known: [NAMES[30:36]]}
    newest = [(user, items[:-1], items[-1]) for user, lists in reviews.items() for items in lists]
    earlier = [(user, items[:end], items[end]) for user, items, _ in newest for end in range(1, len(items))]
    found = []
    for name, chosen in (("all", [*earlier, *newest]), ("newest", newest)):
        spec = load_feature_spec(make_data(tmp_path / name, dataset="amazon_reviews", chosen=chosen))
        ranked = rank_test_users(spec, raw, scoring_translation(spec, raw.model), users=1000, scores=10**6, top=5)
        assert ranked is not None
        found.append(sorted(ranked.ranks.tolist()))
    assert len(found[0]) == 3 and found[0] == found[1]


def test_fewer_users_are_ranked_where_the_scores_are_limited(make: Callable[..., Path]) -> None:
    folder = make()
    spec, raw = load_feature_spec(folder / "tfrecord"), load_raw_model(folder / "model")
    sizes = [
        len(ranked.ranks)
        for users, scores in ((7, 10**6), (1000, 600), (1000, 1))
        if (ranked := rank_test_users(spec, raw, {}, users=users, scores=scores, top=5))
    ]
    assert sizes == [7, 10, 1]


def test_targets_outside_the_vocabulary_are_misses(make: Callable[..., Path], tmp_path: Path) -> None:
    names = [f"C{number:03d}" for number in range(60)]
    data = make_data(tmp_path / "tfrecord", names=names, dataset="amazon_reviews")
    spec, raw = load_feature_spec(data), load_raw_model(make() / "model")
    ranked = rank_test_users(spec, raw, scoring_translation(spec, raw.model), users=20, scores=10**6, top=5)
    assert ranked is not None and np.isinf(ranked.ranks).all()


def test_a_boost_is_a_factor_of_the_likelihood_and_the_first_one_of_an_item_counts(make: Callable[..., Path]) -> None:
    raw, names = load_raw_model(make() / "model"), pa.array(["B002", "B003", "B002", "B004"])
    plain = recommend(Catalogue(raw, names), ["U1"], [[]], 9).table.to_pandas().set_index("item")["likelihood"]
    boosted = Catalogue(raw, names, np.array([1.0, 1.0, 9.0, 50.0]))
    found = recommend(boosted, ["U1"], [[]], 9).table.to_pandas().set_index("item")["likelihood"]
    expected = plain * [50.0 if item == "B004" else 1.0 for item in plain.index]
    expected /= expected.sum()
    np.testing.assert_allclose(found, expected[found.index], rtol=1e-5)
    assert found.is_monotonic_decreasing


def test_a_list_has_few_items_of_a_category(make: Callable[..., Path], tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", dataset="amazon_reviews")
    add_counts(data, COUNTS)
    model = make_known_model(tmp_path / "model", data, LOGITS)
    ids = np.arange(FIRST_ID, FIRST_ID + len(NAMES), dtype=np.int32)
    items = PopularityOfPairs(ids, (3 + ids % 4).astype(np.int32), np.ones(len(ids), np.int64))
    write_catalogue(items, None, int(ids.max()), model)
    adopt(model)
    found = catalogue(tmp_path)
    every = recommend(found, ["U1"], [[]], 60).table["item"].to_pylist()
    listed = recommend(found, ["U1"], [[]], 12, per_category=2).table["item"].to_pylist()
    expected: list[str] = []
    for item in every:
        if sum(int(other[1:]) % 4 == int(item[1:]) % 4 for other in expected) < 2:
            expected.append(item)
    assert listed == expected and len(listed) == 8
    with pytest.raises(KfrecError, match="a number per category: the model keeps no categories of items"):
        recommend(catalogue(make()), ["U1"], [[]], 3, per_category=2)


def test_damaged_counts_are_one_line(tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", rows=5, dataset="amazon_reviews")
    add_counts(data, COUNTS)
    model = make_known_model(tmp_path / "model", data, LOGITS)
    (model / "vocabulary" / "item.parquet").write_bytes(b"PAR1")
    with pytest.raises(KfrecError, match=r"vocabulary/item\.parquet"):
        catalogue(tmp_path)
