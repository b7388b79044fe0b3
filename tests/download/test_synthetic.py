"""The built-in data set holds something to learn; its control does not."""

from __future__ import annotations

import ast
import gzip
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from components.artifacts import open_artifact
from components.datasets.histories.best_auc import best_auc
from components.datasets.histories.synthetic import STAY, STRAY, catalogue_of, reviews_of
from components.download.step import run
from components.errors import KfrecError
from components.metrics import roc_auc
from components.parameters import build
from components.steps.catalog import STEPS

RECENT = 10


@dataclass(frozen=True)
class Shop:
    """A generated data set, read back from its files."""

    reviews: list[dict[str, Any]]
    category: dict[str, str]

    def histories(self) -> dict[str, list[str]]:
        """Items of each user, oldest first."""
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for review in self.reviews:
            found[review["reviewerID"]].append((review["unixReviewTime"], review["asin"]))
        return {user: [item for _, item in sorted(history)] for user, history in found.items()}

    def auc(self, shortest: int = 20) -> float:
        """AUC of the score "how often the target's category occurs in the last 10 items of the history".

        A user's last item is the true target; the false one is drawn from all reviews, as the pipeline draws it.
        """
        rng = np.random.default_rng(1)
        scores: tuple[list[int], list[int]] = ([], [])
        for history in self.histories().values():
            if len(history) < shortest:
                continue
            categories = [self.category.get(item, "no_category") for item in history]
            drawn = self.reviews[rng.integers(len(self.reviews))]["asin"]
            recent = Counter(categories[-1 - RECENT : -1])
            scores[1].append(recent[categories[-1]])
            scores[0].append(recent[self.category.get(drawn, "no_category")])
        false, true = (np.bincount(score, minlength=RECENT + 1) for score in scores)
        below = np.cumsum(false) - false
        return float((true * (below + false / 2)).sum() / (true.sum() * false.sum()))


@cache
def shop(**parameters: Any) -> Shop:
    with TemporaryDirectory() as folder:
        run(STEPS["download"].of(**parameters), raw=Path(folder) / "raw")
        with gzip.open(Path(folder) / "raw" / "reviews_Synthetic.json.gz", "rt") as file:
            reviews = [json.loads(line) for line in file]
        with gzip.open(Path(folder) / "raw" / "meta_Synthetic.json.gz", "rt") as file:
            items = [ast.literal_eval(line) for line in file]
    return Shop(reviews, {item["asin"]: item["categories"][0][-1] for item in items})


def test_the_recent_history_tells_the_true_target_from_a_popular_one() -> None:
    assert 0.75 < shop().auc() < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12345, 1, 2])
def test_the_control_holds_nothing_to_learn(seed: int) -> None:
    # 12,000 users, so that chance moves this AUC by 0.004 (one standard deviation).
    control = shop(synthetic_shuffled_labels=True, synthetic_users=12_000, seed=seed)
    assert control.auc() == pytest.approx(0.5, abs=0.015)


def popularity_auc(data: Shop) -> float:
    """AUC of "the last item of a user is reviewed more often than a random review's item"."""
    count = Counter(review["asin"] for review in data.reviews)
    last = np.array([count[history[-1]] for history in data.histories().values()])
    drawn = np.sort([count[review["asin"]] for review in data.reviews])
    below, at_most = np.searchsorted(drawn, last, "left"), np.searchsorted(drawn, last, "right")
    return float(((below + at_most) / 2 / len(drawn)).mean())


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [False, True])
def test_last_items_are_as_popular_as_all_others(shuffled: bool) -> None:
    data = shop(synthetic_shuffled_labels=shuffled, synthetic_users=12_000)
    assert popularity_auc(data) == pytest.approx(0.5, abs=0.01)


def test_popularity_follows_a_power_law() -> None:
    counts = sorted(Counter(review["asin"] for review in shop().reviews).values(), reverse=True)
    assert sum(counts[: len(counts) // 10]) > 0.3 * sum(counts)


def test_categories_differ_in_size() -> None:
    sizes = Counter(shop().category.values())
    assert len(sizes) == 30
    assert max(sizes.values()) > 4 * min(sizes.values())


def test_nearly_every_user_is_long_enough_and_some_are_not() -> None:
    lengths = np.array([len(history) for history in shop().histories().values()])
    assert 0.9 < (lengths >= 20).mean() < 1.0
    assert lengths.max() > 100


def test_a_user_writes_25_reviews_on_average() -> None:
    assert len(shop().reviews) == pytest.approx(25 * STEPS["download"].of().synthetic_users, rel=0.05)


def test_interests_drift() -> None:
    """Neighbouring reviews share a category far more often than reviews forty apart."""
    near, far = [], []
    for history in shop().histories().values():
        categories = [shop().category.get(item) for item in history]
        near += [a == b for a, b in pairwise(categories)]
        far += [a == b for a, b in zip(categories, categories[40:], strict=False)]
    assert np.mean(near) > 0.6
    assert np.mean(far) < 0.1


def test_a_user_never_writes_two_reviews_at_the_same_time() -> None:
    seen = [(review["reviewerID"], review["unixReviewTime"]) for review in shop().reviews]
    assert len(set(seen)) == len(seen)


def test_a_few_reviewed_items_have_no_metadata() -> None:
    data = shop()
    without = {review["asin"] for review in data.reviews} - data.category.keys()
    assert 0 < len(without) < 0.03 * len(data.category)


def test_the_same_parameters_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(STEPS["download"].of(synthetic_users=200), raw=tmp_path / name)
    assert open_artifact(tmp_path / "a").digest == open_artifact(tmp_path / "b").digest


def test_another_seed_gives_other_data(tmp_path: Path) -> None:
    for seed in (1, 2):
        run(STEPS["download"].of(synthetic_users=200, seed=seed), raw=tmp_path / str(seed))
    assert open_artifact(tmp_path / "1").digest != open_artifact(tmp_path / "2").digest


def test_fewer_items_than_categories_is_one_clear_line() -> None:
    with pytest.raises(KfrecError, match="synthetic_items=5 is below synthetic_categories=30"):
        build(STEPS["download"].parameters(), {"synthetic_items": 5})


@pytest.mark.parametrize(
    "sizes",
    [dict(users=1, items=2, categories=1), dict(users=3, items=30, categories=30)],
)
def test_the_smallest_sizes_work(sizes: dict[str, int], tmp_path: Path) -> None:
    parameters = STEPS["download"].of(**{f"synthetic_{name}": value for name, value in sizes.items()})
    assert run(parameters, raw=tmp_path / "raw")["reviews"] >= parameters.synthetic_users


def test_the_best_auc_is_that_of_a_scorer_who_knows_the_interests() -> None:
    """Against drawn negatives: the expectation of ``best_auc`` is over them."""
    generation, sampling = STEPS["download"].of(synthetic_users=300), STEPS["preprocess"].of(split="last_item")
    best = best_auc(generation, sampling)
    catalogue = catalogue_of(generation)
    reviews, interests = reviews_of(generation, catalogue, 0, 300)
    assert best is not None and interests is not None
    rng = np.random.default_rng(1)
    labels, scores = [], []
    order = np.lexsort((reviews.time, reviews.user))
    for before, at in pairwise(order.tolist()):
        if reviews.user[before] != reviews.user[at]:
            continue
        current = interests.row[interests.owner[at], interests.first[at] :][: interests.at_a_time[at]]
        for label, item in ((1, reviews.item[at]), (0, rng.choice(reviews.item))):
            category = catalogue.category[item]
            chosen = STAY * (interests.category[before] == category) + (1 - STAY) * np.mean(current == category)
            labels.append(label)
            scores.append((1 - STRAY) * chosen / catalogue.category_share[category] + STRAY)
    assert roc_auc(np.array(labels), np.array(scores)) == pytest.approx(best, abs=0.02)
    assert 0.85 < best < 0.95


def test_the_best_auc_of_data_without_interests_is_that_of_a_coin() -> None:
    sampling = STEPS["preprocess"].of()
    assert best_auc(STEPS["download"].of(synthetic_shuffled_labels=True), sampling) == 0.5
    assert best_auc(STEPS["download"].of(synthetic_item_lifetime=300), sampling) is None


def test_items_are_for_sale_for_their_lifetime_only() -> None:
    data = shop(synthetic_shuffled_labels=True, synthetic_item_lifetime=300)
    days: dict[str, list[int]] = defaultdict(list)
    for review in data.reviews:
        days[review["asin"]].append(review["unixReviewTime"] // 86_400)
    spans = [max(each) - min(each) for each in days.values()]
    assert max(spans) <= 300
    assert np.median(spans) > 100
    # Uniform among those for sale: in the middle of the data the counts have the variance of counts.
    first, last = min(map(min, days.values())), max(map(max, days.values()))
    counts = np.array([len(each) for each in days.values() if first + 1500 < min(each) < last - 2500])
    assert len(counts) > 500
    assert counts.var() < 2 * counts.mean()
