import numpy as np

from components.models.ops.host.activations import exp, sigmoid, tanh
from components.models.ops.host.vectors import LANES, load, store
from components.native.compiled import kernel


@kernel
def _compute(x, sigmoids, tangents):
    for i in range(0, len(x), LANES):
        store(sigmoids, i, sigmoid(load(x, i)))
        store(tangents, i, tanh(load(x, i)))


def _computed(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sigmoids, tangents = np.empty_like(x), np.empty_like(x)
    _compute(x, sigmoids, tangents)
    return sigmoids, tangents


def test_they_are_as_exact_as_float32_allows():
    x = np.concatenate([np.linspace(-20, 20, 1 << 16), np.linspace(-1000, 1000, 1 << 10)]).astype(np.float32)
    sigmoids, tangents = _computed(x)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(sigmoids, 1 / (1 + np.exp(-x.astype(np.float64))), atol=1e-7)
    np.testing.assert_allclose(tangents, np.tanh(x.astype(np.float64)), atol=2e-7)


def test_infinity_ends_where_it_should_and_nan_stays():
    sigmoids, tangents = _computed(np.repeat(np.array([np.inf, -np.inf, np.nan], np.float32), LANES))
    np.testing.assert_allclose(sigmoids[::LANES], [1, 0, np.nan], atol=1e-30)
    np.testing.assert_allclose(tangents[::LANES], [1, -1, np.nan])


@kernel
def _exponentials(x, powers):
    for i in range(0, len(x), LANES):
        store(powers, i, exp(load(x, i)))


def test_attention_keeps_the_order_of_scores_that_are_nearly_equal():
    scores = np.linspace(-1e-5, 0, 1 << 12, dtype=np.float32)
    powers = np.empty_like(scores)
    _exponentials(scores, powers)
    assert (np.diff(powers) >= 0).all()
    np.testing.assert_allclose(powers, np.exp(scores.astype(np.float64)), rtol=1e-7)
