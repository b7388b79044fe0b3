import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from components.metrics import auc_of_histograms, precision_recall_curve, roc_auc, roc_curve


def every_pair(labels: np.ndarray, scores: np.ndarray) -> float:
    worth = [1.0 if p > n else 0.5 if p == n else 0.0 for p in scores[labels == 1] for n in scores[labels == 0]]
    return sum(worth) / len(worth)


@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_auc_is_the_share_of_rightly_ordered_pairs_ties_one_half(levels: int) -> None:
    random = np.random.default_rng(levels)
    labels, scores = random.integers(0, 2, 300), random.integers(0, levels, 300) / levels
    assert roc_auc(labels, scores) == pytest.approx(every_pair(labels, scores), abs=1e-12)


def test_auc_agrees_with_scikit_learn_on_float32() -> None:
    random = np.random.default_rng(1)
    scores = random.random(50_000, dtype=np.float32)
    labels = (random.random(50_000) < scores).astype(np.int8)
    assert roc_auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_auc_of_a_hand_made_case() -> None:
    # Pairs: 0.9>0.2, 0.9>0.5, 0.5>0.2 right, 0.5=0.5 half: 3.5 of 4.
    assert roc_auc(np.array([1, 0, 1, 0]), np.array([0.9, 0.2, 0.5, 0.5])) == 3.5 / 4


@pytest.mark.parametrize("label", [0, 1])
def test_auc_of_one_class_is_nan(label: int) -> None:
    assert np.isnan(roc_auc(np.full(3, label), np.arange(3.0)))


def test_auc_of_equal_scores_is_one_half() -> None:
    assert roc_auc(np.array([0, 1, 1]), np.ones(3)) == 0.5


def test_the_bound_is_reached_when_a_bin_holds_everything() -> None:
    assert auc_of_histograms(np.array([3]), np.array([5])) == (0.5, 0.5)


def test_histograms_of_one_class_have_no_auc() -> None:
    assert np.isnan(auc_of_histograms(np.array([3, 0]), np.zeros(2))).all()


def test_the_thinned_curve_keeps_the_area_and_the_ends() -> None:
    random = np.random.default_rng(4)
    scores = random.random(50_000)
    labels = (random.random(50_000) < scores).astype(int)
    curve = roc_curve(labels, scores, points=200)
    fpr, tpr = curve["false_positive_rate"], curve["true_positive_rate"]
    assert len(fpr) <= 200
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert np.trapezoid(tpr, fpr) == pytest.approx(roc_auc(labels, scores), abs=1e-3)


def test_a_short_curve_has_every_threshold_and_only_finite_ones() -> None:
    curve = roc_curve(np.array([1, 0, 1, 0]), np.array([0.9, 0.2, 0.5, 0.5]))
    assert curve["threshold"] == [np.nextafter(0.9, 1), 0.9, 0.5, 0.2]
    assert curve["true_positive_rate"] == [0, 0.5, 1, 1]
    assert curve["false_positive_rate"] == [0, 0, 0.5, 1]


def test_the_precision_recall_curve_of_a_hand_made_case() -> None:
    # From the top: a hit of 1, of 1, of 2 with the tie, and of 2: half of the recall, half, all, all.
    curve = precision_recall_curve(np.array([1, 0, 1, 0, 0]), np.array([0.9, 0.8, 0.7, 0.7, 0.1]))
    assert curve["recall"] == [0.5, 0.5, 1, 1]
    assert curve["precision"] == [1, 0.5, 0.5, 0.4]
    assert curve["threshold"] == [0.9, 0.8, 0.7, 0.1]


def test_the_thinned_precision_recall_curve_ends_at_full_recall() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 5000)
    curve = precision_recall_curve(labels, random.random(5000), points=50)
    assert len(curve["recall"]) <= 50
    assert curve["recall"][-1] == 1
    assert curve["precision"][-1] == pytest.approx(labels.mean())
