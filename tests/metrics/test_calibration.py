import numpy as np
import pytest

from components.metrics import calibration


def test_calibration_error_of_a_hand_made_case() -> None:
    # Two bins of two: predicted 0.2 and observed 0.5, predicted 0.8 and observed 1.
    labels, probabilities = np.array([0, 1, 1, 1]), np.array([0.1, 0.3, 0.7, 0.9])
    result = calibration(labels, probabilities, bins=2)
    assert result.error == pytest.approx((0.3 + 0.2) / 2)
    assert result.ratio == pytest.approx(3 / 2)
    assert result.rows == (2, 2)


def test_the_error_is_the_weighted_gap_of_the_bins_it_shows() -> None:
    random = np.random.default_rng(0)
    p = random.beta(2, 5, 5000)
    result = calibration((random.random(5000) < p**2).astype(int), p, 10)
    gaps = [abs(o - q) * n for o, q, n in zip(result.observed, result.predicted, result.rows, strict=True)]
    assert result.error == pytest.approx(sum(gaps) / 5000)
    assert sum(result.rows) == 5000


def test_true_probabilities_are_calibrated() -> None:
    random = np.random.default_rng(0)
    p = random.random(100_000)
    result = calibration((random.random(100_000) < p).astype(int), p)
    assert result.error < 0.01
    assert result.ratio == pytest.approx(1, abs=0.01)


def test_equal_predictions_share_one_bin() -> None:
    assert calibration(np.array([0, 1, 1, 0]), np.full(4, 0.5)).rows == (4,)
