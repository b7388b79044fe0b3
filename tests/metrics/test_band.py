import numpy as np
import pytest

from components.metrics import roc_bands


def drawn(samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, scores that tell, and scores that guess; in steps of 0.1, so that there are ties."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, samples)
    return labels, np.round(labels + random.normal(0, 1, samples), 1), np.round(random.normal(0, 1, samples), 1)


def test_curves_begin_at_0_end_at_1_and_lie_in_their_bands() -> None:
    bands = roc_bands(*drawn(500), samples=100)
    for band in (bands.model, bands.rival):
        assert band.estimate[-1] == 1 and np.all(np.diff(band.estimate) >= 0)
        assert np.all(band.low <= band.estimate + 1e-9) and np.all(band.estimate <= band.high + 1e-9)


def test_the_curve_is_the_share_of_positives_above_that_of_negatives() -> None:
    # The first positive comes before all negatives, the second after one of two; between them the curve rises evenly.
    bands = roc_bands(np.array([1, 1, 0, 0]), np.array([4.0, 3.0, 3.5, 1.0]), np.array([1.0, 1.0, 1.0, 1.0]))
    assert bands.model.estimate[50] == 1.0 and bands.model.estimate[25] == pytest.approx(0.5)
    assert bands.rival.estimate == pytest.approx(bands.false_positive_rate)


def test_a_better_model_gains_for_sure_and_an_equal_one_nothing() -> None:
    labels, good, guess = drawn(2000)
    assert np.all(roc_bands(labels, good, guess, samples=100).difference.low[10:60] > 0)
    same = roc_bands(labels, good, good, samples=20).difference
    assert not same.low.any() and not same.high.any()


def test_dependent_samples_widen_the_band() -> None:
    labels, good, guess = drawn(300)
    often = [np.repeat(each, 20) for each in (labels, good, guess)]
    alone = roc_bands(*often, samples=100).difference
    together = roc_bands(*often, clusters=np.repeat(np.arange(300), 20), samples=100).difference
    assert (together.high - together.low)[50] > 3 * (alone.high - alone.low)[50]
