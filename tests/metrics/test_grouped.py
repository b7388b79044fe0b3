import numpy as np
import pytest

from components.metrics import FEWEST, auc_by_bucket, auc_by_group, delong_interval, grouped_auc, roc_auc


def user_by_user(labels: np.ndarray, scores: np.ndarray, users: np.ndarray) -> tuple[float, int]:
    total = rows = left_out = 0.0
    for user in set(users.tolist()):
        own = users == user
        auc = roc_auc(labels[own], scores[own])
        if np.isnan(auc):
            left_out += 1
        else:
            total, rows = total + auc * own.sum(), rows + own.sum()
    return total / rows, int(left_out)


@pytest.mark.parametrize("levels", [3, 1000])
def test_grouped_auc_is_the_mean_over_users_weighted_by_samples(levels: int) -> None:
    random = np.random.default_rng(levels)
    users, labels = random.integers(0, 100, 700), random.integers(0, 2, 700)
    scores = random.integers(0, levels, 700) / levels
    auc, left_out = user_by_user(labels, scores, users)
    result = grouped_auc(labels, scores, users)
    assert result.auc == pytest.approx(auc, abs=1e-12)
    assert (result.left_out, result.groups) == (left_out, len(set(users.tolist())) - left_out)


def test_users_with_one_class_are_left_out_and_counted() -> None:
    result = grouped_auc(np.array([1, 0, 1, 1]), np.array([0.9, 0.1, 0.2, 0.3]), np.array([7, 7, 8, 8]))
    assert (result.auc, result.groups, result.left_out) == (1.0, 1, 1)


def test_no_user_with_both_classes_has_no_grouped_auc() -> None:
    assert np.isnan(grouped_auc(np.array([1, 0]), np.array([0.1, 0.2]), np.array([1, 2])).auc)


def test_differences_between_users_do_not_count() -> None:
    labels, scores, users = np.array([1, 0, 1, 0]), np.array([0.2, 0.1, 0.9, 0.8]), np.array([1, 1, 2, 2])
    assert roc_auc(labels, scores) == 0.75
    assert grouped_auc(labels, scores, users).auc == 1


def test_buckets_show_their_range_rows_and_auc() -> None:
    labels, scores = np.array([1, 0, 1, 0, 1]), np.array([0.9, 0.1, 0.3, 0.4, 0.5])
    buckets = auc_by_bucket(labels, scores, np.array([2, 5, 6, 9, 30]), [5, 10])
    few = {"low": None, "high": None}
    assert buckets == [
        {"from": 2, "to": 5, "rows": 2, "clicked": 1, "auc": 1.0, **few},
        {"from": 6, "to": 9, "rows": 2, "clicked": 1, "auc": 0.0, **few},
        {"from": 30, "to": 30, "rows": 1, "clicked": 1, "auc": None, **few},
    ]


def test_a_group_has_the_auc_and_the_band_of_its_own_samples() -> None:
    random = np.random.default_rng(3)
    labels, scores, groups = random.integers(0, 2, 400), random.random(400), random.integers(0, 3, 400)
    users = random.integers(0, 90, 400)
    for group, found in enumerate(auc_by_group(labels, scores, groups, users)):
        here = groups == group
        interval = delong_interval(labels[here] > 0, scores[here], users[here])
        assert found["auc"] == pytest.approx(roc_auc(labels[here], scores[here]), abs=1e-12)
        assert (found["low"], found["high"]) == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_a_band_takes_enough_users_of_both_classes_however_many_samples_they_have() -> None:
    labels, scores = np.tile([1, 0], 500), np.linspace(0, 1, 1000)
    users = np.arange(1000) % (2 * FEWEST)
    assert auc_by_group(labels, scores, np.zeros(1000, int), users)[0]["low"] is not None
    assert auc_by_group(labels, scores, np.zeros(1000, int), users // 4)[0]["low"] is None
