import numpy as np
import pytest

from components.models.kernels.products import GRAIN, ROWS, multiply, pack, packed, padded


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 96, 112])
@pytest.mark.parametrize("depth", [1, 7, 96])
@pytest.mark.parametrize("add", [False, True])
def test_a_product_is_that_of_numpy(columns: int, depth: int, add: bool):
    left, right, before = _random(3 * ROWS, depth), _random(depth, columns), _random(3 * ROWS, columns + 5)
    result = before.copy()
    multiply(
        add, left.reshape(-1), 0, depth, 1, 3 * ROWS, depth, packed(right), 0, depth, columns,
        result.reshape(-1), 0, columns + 5,
    )  # fmt: skip
    expected = left @ right + (before[:, :columns] if add else 0)
    np.testing.assert_allclose(result[:, :columns], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(result[:, columns:], before[:, columns:])


def test_a_left_factor_may_be_read_by_columns():
    left, right, result = _random(9, 2 * ROWS), _random(9, 48), np.zeros((2 * ROWS, 48), np.float32)
    multiply(False, left.reshape(-1), 0, 1, 2 * ROWS, 2 * ROWS, 9, packed(right), 0, 9, 48, result.reshape(-1), 0, 48)
    np.testing.assert_allclose(result, left.T @ right, rtol=1e-4, atol=1e-4)


def test_only_the_first_rows_of_the_panels_may_be_wanted():
    left, right, result = _random(ROWS, 4), _random(10, 64), np.zeros((ROWS, 64), np.float32)
    multiply(False, left.reshape(-1), 0, 4, 1, ROWS, 4, packed(right), 0, 10, 64, result.reshape(-1), 0, 64)
    np.testing.assert_allclose(result, left @ right[:4], rtol=1e-4, atol=1e-4)


def test_panels_made_in_a_kernel_are_those_made_outside():
    matrix = _random(6, 100)
    panels = np.zeros(6 * 80 + 3, np.float32)
    assert pack(matrix.reshape(-1), 4, 100, 6, 80, panels, 3) == len(panels)
    np.testing.assert_array_equal(panels[3:], packed(matrix[:, 4:84]))


def test_columns_are_filled_up_with_zeros():
    assert [padded(columns) for columns in (1, GRAIN, GRAIN + 1)] == [GRAIN, GRAIN, 2 * GRAIN]
    left, result = np.ones(ROWS * 3, np.float32), np.ones((ROWS, GRAIN), np.float32)
    multiply(False, left, 0, 3, 1, ROWS, 3, packed(np.ones((3, 5), "f")), 0, 3, GRAIN, result.reshape(-1), 0, GRAIN)
    np.testing.assert_array_equal(result, np.tile(3.0 * (np.arange(GRAIN) < 5), (ROWS, 1)))
