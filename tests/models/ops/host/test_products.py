import numpy as np
import pytest

from components.models.ops.host.products import (
    DEEPEST,
    GRAIN,
    TILE,
    add_transposed,
    multiply,
    packed,
    padded,
)
from components.native import arrays


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def _multiply(left: np.ndarray, right: np.ndarray, result: np.ndarray, add: bool = False) -> None:
    """Of ``[TILE, depth]`` and the first ``depth`` rows of ``right``; adds to or overwrites the first columns."""
    depth = left.shape[1]
    multiply(
        add, left.reshape(-1), 0, depth, depth, packed(right), 0, len(right), padded(right.shape[1]),
        result.reshape(-1), 0, result.shape[1],
    )  # fmt: skip


@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 96, 112])
@pytest.mark.parametrize("depth", [1, 7, 96, DEEPEST + 1, 2 * DEEPEST + 3])
@pytest.mark.parametrize("add", [False, True])
def test_a_product_is_that_of_numpy(columns: int, depth: int, add: bool):
    left, right, before = _random(TILE, depth), _random(depth, columns), _random(TILE, columns + 5)
    result = before.copy()
    _multiply(left, right, result, add)
    expected = left @ right + (before[:, :columns] if add else 0)
    np.testing.assert_allclose(result[:, :columns], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(result[:, columns:], before[:, columns:])


@pytest.mark.parametrize("rows", [16, 32, 48, 80, 160])
@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 112])
@pytest.mark.parametrize("depth", [1, 17, 32, 64, 100])
def test_a_product_of_a_transposed_factor_is_added(rows: int, columns: int, depth: int):
    left, right, before = _random(depth, rows + 20), _random(depth, columns + 7), _random(rows, columns + 5)
    result = before.copy()
    add_transposed(
        left.reshape(-1), 20, rows + 20, rows, depth, right.reshape(-1), 3, columns + 7, columns,
        result.reshape(-1), 0, columns + 5,
    )  # fmt: skip
    expected = before[:, :columns] + left[:, 20:].T @ right[:, 3 : 3 + columns]
    np.testing.assert_allclose(result[:, :columns], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(result[:, columns:], before[:, columns:])


def test_a_product_has_the_error_of_a_sum_in_single_precision():
    left, right = _random(TILE, 288), _random(288, 96)
    straight, transposed = np.zeros((TILE, 96), np.float32), np.zeros((288, 96), np.float32)
    _multiply(left, right, straight)
    flat = np.ascontiguousarray(left[:, :96]).reshape(-1)
    add_transposed(left.reshape(-1), 0, 288, 288, TILE, flat, 0, 96, 96, transposed.reshape(-1), 0, 96)
    for one, other, result in ((left, right, straight), (left.T, left[:, :96], transposed)):
        one, other = one.astype(np.float64), other.astype(np.float64)
        # Each of the additions rounds by up to half a unit of the sum so far, up or down.
        unit = 2**-24 * np.sqrt(one.shape[1] * (one**2 @ other**2))
        error = np.abs(result - one @ other) / unit
        assert error.mean() < 0.5 and error.max() < 6


def test_only_the_first_rows_of_the_panels_may_be_wanted():
    left, right, result = _random(TILE, 33), _random(70, 64), np.zeros((TILE, 64), np.float32)
    _multiply(left, right, result)
    np.testing.assert_allclose(result, left @ right[:33], rtol=1e-4, atol=1e-4)


def test_a_left_factor_may_begin_further_on():
    left, right, result = _random(TILE, 96), _random(48, 48), np.zeros((TILE, 48), np.float32)
    multiply(False, left.reshape(-1), 30, 96, 48, packed(right), 0, 48, 48, result.reshape(-1), 0, 48)
    np.testing.assert_allclose(result, left[:, 30:78] @ right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_what_is_not_finite_is_seen_in_the_result(wrong: float):
    left, right, result = _random(TILE, 32), _random(32, 16), np.zeros((TILE, 16), np.float32)
    left[5, 7] = wrong
    _multiply(left, right, result)
    np.testing.assert_array_equal(np.isfinite(result).all(1), np.arange(TILE) != 5)


def test_matrices_are_packed_one_behind_the_other_where_a_cache_line_begins():
    one, other = _random(3, 20), _random(5, 16)
    panels = packed(one, other)
    assert panels.ctypes.data % arrays.ALIGNMENT == 0
    np.testing.assert_array_equal(panels, np.concatenate([packed(one), packed(other)]))


def test_columns_are_filled_up_with_zeros():
    assert [padded(columns) for columns in (1, GRAIN, GRAIN + 1)] == [GRAIN, GRAIN, 2 * GRAIN]
    result = np.ones((TILE, GRAIN), np.float32)
    _multiply(np.ones((TILE, 3), "f"), np.ones((3, 5), "f"), result)
    np.testing.assert_array_equal(result, np.tile(3.0 * (np.arange(GRAIN) < 5), (TILE, 1)))
