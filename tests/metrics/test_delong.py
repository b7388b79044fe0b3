import numpy as np
import pytest

from components.metrics import auc_interval, delong_interval, roc_auc


def drawn(seed: int, rows: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples of users, each of whom the scores fit better or worse."""
    random = np.random.default_rng(seed)
    users = random.integers(0, rows // 8, rows)
    labels = random.integers(0, 2, rows)
    fit = random.normal(0.5, 1.5, rows // 8)[users]
    return labels, np.round(labels * fit + random.normal(size=rows), 1), users


@pytest.mark.parametrize("clustered", [False, True])
def test_the_interval_is_that_of_the_bootstrap(clustered: bool) -> None:
    labels, scores, users = drawn(1)
    units = users if clustered else np.arange(len(users))
    interval = delong_interval(labels > 0, scores, units)
    drawn_often = auc_interval(labels, scores, clusters=units, samples=1000)
    assert interval.estimate == pytest.approx(roc_auc(labels, scores), abs=1e-12)
    assert (interval.low, interval.high) == pytest.approx((drawn_often.low, drawn_often.high), abs=0.004)


def test_users_that_differ_make_the_interval_wider() -> None:
    labels, scores, users = drawn(2)
    alone, together = (delong_interval(labels > 0, scores, units) for units in (np.arange(len(users)), users))
    assert together.high - together.low > 1.2 * (alone.high - alone.low)


def test_the_formula_by_hand() -> None:
    # Two positives beat 2 and 1 of two negatives: AUC 3/4; components 1, 1/2 and 1, 1/2; both variances are 1/8, so
    # that the AUC's is 1/16 + 1/16 = 1/8.
    interval = delong_interval(np.array([True, True, False, False]), np.array([4.0, 2.0, 3.0, 1.0]), np.arange(4))
    logit, width = np.log(3), 1.959964 * np.sqrt(1 / 8) / (3 / 16)
    assert interval.estimate == 0.75
    assert interval.low == pytest.approx(1 / (1 + np.exp(width - logit)), abs=1e-6)
    assert interval.high == pytest.approx(1 / (1 + np.exp(-width - logit)), abs=1e-6)


def test_a_perfect_order_of_few_samples_is_not_certain() -> None:
    interval = delong_interval(np.arange(40) >= 30, np.arange(40.0), np.arange(40))
    # Ten rightly ordered positives are as likely as 0.025 where each is so with probability 0.025 ** (1 / 10).
    assert (interval.estimate, interval.high) == (1, 1)
    assert interval.low == pytest.approx(0.025 ** (1 / 10))
