import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from components.metrics import average_precision, precision_recall_curve


def test_average_precision_of_a_hand_made_case() -> None:
    # From the top: hit (1/1), miss, hit (2/3): half of the recall at precision 1, half at 2/3.
    assert average_precision(np.array([1, 0, 1]), np.array([0.9, 0.8, 0.7])) == pytest.approx(0.5 + 0.5 * 2 / 3)


@pytest.mark.parametrize("levels", [3, 10_000])
def test_average_precision_agrees_with_scikit_learn(levels: int) -> None:
    random = np.random.default_rng(levels)
    labels, scores = random.integers(0, 2, 2000), random.integers(0, levels, 2000) / levels
    assert average_precision(labels, scores) == pytest.approx(average_precision_score(labels, scores), abs=1e-12)


def test_no_positive_has_no_average_precision() -> None:
    assert np.isnan(average_precision(np.zeros(3), np.arange(3.0)))


def test_the_curve_is_thinned_and_ends_at_full_recall() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 5000)
    curve = precision_recall_curve(labels, random.random(5000), points=50)
    assert len(curve["recall"]) <= 50
    assert curve["recall"][-1] == 1
    assert curve["precision"][-1] == pytest.approx(labels.mean())
