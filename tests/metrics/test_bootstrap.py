import numpy as np
import pytest

from components.metrics import Interval, auc_interval, mean_interval, percentile_ends, rarer_units, roc_auc


def made_up(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    scores = random.random(n)
    labels = (random.random(n) < scores).astype(np.int8)
    return labels, scores, scores + random.normal(0, 0.3, n)


@pytest.mark.parametrize("digits", [1, 8])
def test_each_resample_is_the_auc_of_the_drawn_samples(digits: int) -> None:
    labels, scores, rival = made_up(200, 0)
    scores, rival = scores.round(digits), rival.round(digits)
    random = np.random.default_rng(5)
    differences = []
    for _ in range(100):
        drawn = random.integers(0, 200, 200, dtype=np.uint32)
        differences.append(roc_auc(labels[drawn], scores[drawn]) - roc_auc(labels[drawn], rival[drawn]))
    low, high = percentile_ends(np.array(differences), rarer_units(labels), 0.9)
    interval = auc_interval(labels, scores, rival, samples=100, confidence=0.9, seed=5)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-12)
    assert interval.estimate == pytest.approx(roc_auc(labels, scores) - roc_auc(labels, rival), abs=1e-12)


def test_a_whole_cluster_is_drawn_at_once() -> None:
    labels, scores, _ = made_up(100, 1)
    users = np.repeat(np.arange(50), 2)
    random = np.random.default_rng(5)
    aucs = []
    for _ in range(100):
        drawn = random.integers(0, 50, 50, dtype=np.uint32)
        rows = np.concatenate([drawn * 2, drawn * 2 + 1])
        aucs.append(roc_auc(labels[rows], scores[rows]))
    interval = auc_interval(labels, scores, samples=100, confidence=0.9, seed=5, clusters=users)
    assert (interval.low, interval.high) == pytest.approx(
        percentile_ends(np.array(aucs), rarer_units(labels, users), 0.9), abs=1e-12
    )


def test_a_model_does_not_differ_from_itself() -> None:
    labels, scores, _ = made_up(500, 2)
    interval = auc_interval(labels, scores, scores * 2, samples=100)
    assert (interval.estimate, interval.low, interval.high) == (0, 0, 0)


def test_a_better_model_is_told_from_noise() -> None:
    labels, scores, worse = made_up(5000, 3)
    assert auc_interval(labels, scores, worse, samples=200).low > 0
    assert auc_interval(labels, worse, scores, samples=200).high < 0


def test_more_samples_narrow_the_interval() -> None:
    few, many = made_up(200, 4), made_up(20_000, 4)
    wide, narrow = auc_interval(*few[:2], samples=100), auc_interval(*many[:2], samples=100)
    assert wide.high - wide.low > 5 * (narrow.high - narrow.low)


def test_nine_of_ten_intervals_at_ninety_percent_hold_the_true_auc() -> None:
    # Normal scores one standard deviation apart: AUC = Phi(1 / sqrt(2)) = 0.7602.
    random = np.random.default_rng(6)
    held = 0
    for trial in range(100):
        labels = np.repeat([0, 1], 100)
        interval = auc_interval(labels, random.normal(labels.astype(float), 1), samples=200, confidence=0.9, seed=trial)
        held += interval.low <= 0.7602 <= interval.high
    assert 82 <= held <= 97


def test_the_seed_decides_the_draws() -> None:
    labels, scores, _ = made_up(200, 7)
    assert auc_interval(labels, scores, samples=100, seed=1) == auc_interval(labels, scores, samples=100, seed=1)
    assert auc_interval(labels, scores, samples=100, seed=1) != auc_interval(labels, scores, samples=100, seed=2)


@pytest.mark.parametrize("digits", [1, 8], ids=["few distinct values", "many"])
def test_the_interval_of_a_mean_has_the_width_that_its_deviation_gives(digits: int) -> None:
    values = np.random.default_rng(8).random(2000).round(digits)
    interval = mean_interval(values, samples=2000, confidence=0.9)
    error = values.std() / np.sqrt(2000)
    assert interval.estimate == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - 1.645 * error, abs=0.2 * error)
    assert interval.high == pytest.approx(values.mean() + 1.645 * error, abs=0.2 * error)


def test_the_mean_of_equal_values_is_certain() -> None:
    assert mean_interval(np.full(10, 0.25)) == Interval(0.25, 0.25, 0.25)


def test_the_seed_decides_the_draws_of_a_mean() -> None:
    values = np.random.default_rng(9).random(50)
    assert mean_interval(values, seed=1) == mean_interval(values, seed=1) != mean_interval(values, seed=2)


def test_an_interval_counts_units_of_the_rarer_class() -> None:
    labels, users = np.repeat([0, 1], [90, 30]), np.arange(120) // 3
    scores = np.random.default_rng(10).random(120)
    assert auc_interval(labels, scores, samples=50).units == auc_interval(1 - labels, scores, samples=50).units == 30
    assert auc_interval(labels, scores, samples=50, clusters=users).units == 10
    hits = np.repeat([0.0, 1.0], [2000, 12])
    assert mean_interval(hits, samples=50).units == 12
    assert mean_interval(hits, samples=50, clusters=np.arange(2012) // 2).units == 6
    assert mean_interval(1 - hits, samples=50).units == 2000


@pytest.mark.parametrize("positives", [1, 2, 5, 9, 10])
def test_below_ten_units_of_the_rarer_class_there_is_no_interval(positives: int) -> None:
    labels = np.repeat([0, 1], [600, positives])
    scores = np.random.default_rng(11).random(len(labels))
    for interval in (auc_interval(labels, scores), auc_interval(labels, scores, -scores), mean_interval(labels)):
        ends = interval.metrics("test_auc")["test_auc_low"], interval.metrics("test_auc")["test_auc_high"]
        assert (ends == (None, None)) == (positives < 10)
        assert np.isfinite(interval.estimate)


def test_a_higher_level_needs_more_units() -> None:
    """Without a difference, n units agree on one side with the probability 2^-n."""
    ten, eleven = (mean_interval(np.full(units, 0.1), confidence=0.999) for units in (10, 11))
    assert np.isnan(ten.low) and eleven.low == pytest.approx(0.1)


def test_the_interval_of_few_units_is_as_wide_as_students() -> None:
    values = np.random.default_rng(12).normal(size=12)
    interval = mean_interval(values, samples=20_000)
    half = 2.201 * values.std(ddof=1) / np.sqrt(12)  # Student's quantile of 97.5 % with 11 degrees of freedom
    assert interval.high - interval.low == pytest.approx(2 * half, rel=0.1)
