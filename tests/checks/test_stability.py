import math

import pytest

from components.checks.profiler import stability_index


def test_equal_shares_have_none() -> None:
    assert stability_index([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]) == 0


def test_it_is_the_sum_over_the_bins() -> None:
    # (0.6 - 0.5) ln(0.6 / 0.5) + (0.4 - 0.5) ln(0.4 / 0.5) = 0.1 ln 1.5
    assert stability_index([0.6, 0.4], [0.5, 0.5]) == pytest.approx(0.1 * math.log(1.5))
    assert stability_index([0.5, 0.5], [0.6, 0.4]) == pytest.approx(0.1 * math.log(1.5))


def test_an_empty_bin_leaves_it_finite() -> None:
    # 0.5 ln 2 + (0.0001 - 0.5) ln(0.0001 / 0.5)
    expected = 0.5 * math.log(2) + 0.4999 * math.log(5000)
    assert stability_index([1.0, 0.0], [0.5, 0.5]) == pytest.approx(expected)
