import numpy as np
import pytest

from components.arrays import ALIGNMENT
from components.models.kernels.products import DEEPEST, GRAIN, ROWS, add_transposed, multiply, packed, padded


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 96, 112])
@pytest.mark.parametrize("depth", [1, 7, 96, DEEPEST + 1, 2 * DEEPEST + 3])
@pytest.mark.parametrize("add", [False, True])
def test_a_product_is_that_of_numpy(columns: int, depth: int, add: bool):
    left, right, before = _random(3 * ROWS, depth), _random(depth, columns), _random(3 * ROWS, columns + 5)
    result = before.copy()
    multiply(
        add, left.reshape(-1), 0, depth, 3 * ROWS, depth, packed(right), 0, depth, columns,
        result.reshape(-1), 0, columns + 5,
    )  # fmt: skip
    expected = left @ right + (before[:, :columns] if add else 0)
    np.testing.assert_allclose(result[:, :columns], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(result[:, columns:], before[:, columns:])


@pytest.mark.parametrize("columns", [16, 32, 48, 64, 112])
@pytest.mark.parametrize("depth", [1, 9, 64])
def test_a_product_of_a_transposed_factor_is_added(columns: int, depth: int):
    left, right, before = _random(depth, 3 * ROWS), _random(depth, columns + 7), _random(2 * ROWS, columns + 5)
    result = before.copy()
    add_transposed(
        left.reshape(-1), ROWS, 3 * ROWS, 2 * ROWS, depth, right.reshape(-1), 3, columns + 7, columns,
        result.reshape(-1), 0, columns + 5,
    )  # fmt: skip
    expected = before[:, :columns] + left[:, ROWS:].T @ right[:, 3 : 3 + columns]
    np.testing.assert_allclose(result[:, :columns], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(result[:, columns:], before[:, columns:])


def test_only_the_first_rows_of_the_panels_may_be_wanted():
    left, right, result = _random(ROWS, 4), _random(10, 64), np.zeros((ROWS, 64), np.float32)
    multiply(False, left.reshape(-1), 0, 4, ROWS, 4, packed(right), 0, 10, 64, result.reshape(-1), 0, 64)
    np.testing.assert_allclose(result, left @ right[:4], rtol=1e-4, atol=1e-4)


def test_matrices_are_packed_one_behind_the_other_where_a_cache_line_begins():
    one, other = _random(3, 20), _random(5, 16)
    panels = packed(one, other)
    assert panels.ctypes.data % ALIGNMENT == 0
    np.testing.assert_array_equal(panels, np.concatenate([packed(one), packed(other)]))


def test_columns_are_filled_up_with_zeros():
    assert [padded(columns) for columns in (1, GRAIN, GRAIN + 1)] == [GRAIN, GRAIN, 2 * GRAIN]
    left, result = np.ones(ROWS * 3, np.float32), np.ones((ROWS, GRAIN), np.float32)
    multiply(False, left, 0, 3, ROWS, 3, packed(np.ones((3, 5), "f")), 0, 3, GRAIN, result.reshape(-1), 0, GRAIN)
    np.testing.assert_array_equal(result, np.tile(3.0 * (np.arange(GRAIN) < 5), (ROWS, 1)))
