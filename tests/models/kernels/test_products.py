"""Products by vector instructions and, where the processor has one, by its matrix unit."""

from types import ModuleType

import numpy as np
import pytest

from components import arrays
from components.models.kernels import matrix_products, products, vector_products
from components.models.kernels.matrix_unit import HAS_MATRIX_UNIT
from components.models.kernels.products import DEEP, GRAIN, TILE, packed, padded

DEEPEST = vector_products.DEEPEST
UNITS = [products, vector_products, *([matrix_products] if HAS_MATRIX_UNIT else [])]
every_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.__name__.rpartition(".")[-1])


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def _floats(count: int) -> np.ndarray:
    """Memory that begins with a cache line, in which nobody has written."""
    floats = arrays.empty([count], np.float32)
    floats[:] = np.nan
    return floats


def _panels(unit: ModuleType, right: np.ndarray) -> np.ndarray:
    if unit is products:
        return packed(right)
    panels = _floats(unit.panel_size(*right.shape))
    unit.pack(right, panels)
    return panels


def _multiply(
    unit: ModuleType,
    left: np.ndarray,
    right: np.ndarray,
    result: np.ndarray,
    columns: int,
    depth: int,
    add: bool = False,
) -> None:
    """Of the first ``depth`` columns of ``left``, ``[TILE, width]``, whose rows are filled up with ones."""
    width = -(-left.shape[1] // DEEP) * DEEP
    filled = np.pad(left, [(0, 0), (0, width - left.shape[1])], constant_values=1)
    room = _floats(TILE * width + unit.split_size(width))
    room[: TILE * width] = filled.reshape(-1)
    for row in range(TILE):
        unit.split_row(room, row * width, width, room, TILE * width, row)
    unit.multiply(
        add, room, 0, width, TILE * width, depth, _panels(unit, right), 0, len(right), columns,
        result.reshape(-1), 0, result.shape[1],
    )  # fmt: skip


@every_unit
@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 96, 112])
@pytest.mark.parametrize("depth", [1, 7, 96, DEEPEST + 1, 2 * DEEPEST + 3])
@pytest.mark.parametrize("add", [False, True])
def test_a_product_is_that_of_numpy(unit: ModuleType, columns: int, depth: int, add: bool):
    left, right, before = _random(TILE, depth), _random(depth, columns), _random(TILE, columns + 5)
    result = before.copy()
    _multiply(unit, left, right, result, columns, depth, add)
    expected = left @ right + (before[:, :columns] if add else 0)
    np.testing.assert_allclose(result[:, :columns], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(result[:, columns:], before[:, columns:])


@every_unit
@pytest.mark.parametrize("rows", [16, 32, 48, 80, 160])
@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 112])
@pytest.mark.parametrize("depth", [1, 17, 32, 64, 100])
def test_a_product_of_a_transposed_factor_is_added(unit: ModuleType, rows: int, columns: int, depth: int):
    left, right, before = _random(depth, rows + 20), _random(depth, columns + 7), _random(rows, columns + 5)
    result = before.copy()
    unit.add_transposed(
        left.reshape(-1), 20, rows + 20, rows, depth, right.reshape(-1), 3, columns + 7, columns,
        result.reshape(-1), 0, columns + 5,
    )  # fmt: skip
    expected = before[:, :columns] + left[:, 20:].T @ right[:, 3 : 3 + columns]
    np.testing.assert_allclose(result[:, :columns], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(result[:, columns:], before[:, columns:])


@every_unit
def test_a_product_is_as_exact_as_numpys(unit: ModuleType):
    left, right = _random(TILE, 288), _random(288, 96)
    straight, transposed = np.zeros((TILE, 96), np.float32), np.zeros((288, 96), np.float32)
    _multiply(unit, left, right, straight, 96, 288)
    flat = np.ascontiguousarray(left[:, :96]).reshape(-1)
    unit.add_transposed(left.reshape(-1), 0, 288, 288, TILE, flat, 0, 96, 96, transposed.reshape(-1), 0, 96)
    for one, other, result in ((left, right, straight), (left.T, left[:, :96], transposed)):
        exact = one.astype(np.float64) @ other.astype(np.float64)
        of_numpy = np.abs(one @ other - exact)
        error = np.abs(result - exact)
        assert error.mean() < 1.5 * of_numpy.mean()
        assert error.max() < 2 * of_numpy.max()


@every_unit
def test_only_the_first_rows_of_the_panels_may_be_wanted(unit: ModuleType):
    left, right, result = _random(TILE, 2 * DEEP), _random(70, 64), np.zeros((TILE, 64), np.float32)
    _multiply(unit, left, right, result, 64, DEEP)
    np.testing.assert_allclose(result, left[:, :DEEP] @ right[:DEEP], rtol=1e-4, atol=1e-4)


def test_a_left_factor_may_begin_further_on():
    left, right, result = _random(TILE, 3 * DEEP), _random(DEEP + 16, 48), np.zeros((TILE, 48), np.float32)
    split = left.size
    room = _floats(split + products.split_size(3 * DEEP))
    room[:split] = left.reshape(-1)
    for row in range(TILE):
        products.split_row(room, row * 3 * DEEP, 3 * DEEP, room, split, row)
    products.multiply(
        False, room, DEEP, 3 * DEEP, products.split_at(split, DEEP), DEEP + 16, packed(right), 0, DEEP + 16, 48,
        result.reshape(-1), 0, 48,
    )  # fmt: skip
    np.testing.assert_allclose(result, left[:, DEEP : 2 * DEEP + 16] @ right, rtol=1e-4, atol=1e-4)


@every_unit
@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_what_is_not_finite_is_seen_in_the_result(unit: ModuleType, wrong: float):
    left, right, result = _random(TILE, 32), _random(32, 16), np.zeros((TILE, 16), np.float32)
    left[5, 7] = wrong
    _multiply(unit, left, right, result, 16, 32)
    np.testing.assert_array_equal(np.isfinite(result).all(1), np.arange(TILE) != 5)


def test_matrices_are_packed_one_behind_the_other_where_a_cache_line_begins():
    one, other = _random(3, 20), _random(5, 16)
    panels = packed(one, other)
    assert panels.ctypes.data % arrays.ALIGNMENT == 0
    np.testing.assert_array_equal(panels, np.concatenate([packed(one), packed(other)]))


def test_columns_are_filled_up_with_zeros():
    assert [padded(columns) for columns in (1, GRAIN, GRAIN + 1)] == [GRAIN, GRAIN, 2 * GRAIN]
    result = np.ones((TILE, GRAIN), np.float32)
    _multiply(products, np.ones((TILE, 3), "f"), np.ones((3, 5), "f"), result, GRAIN, 3)
    np.testing.assert_array_equal(result, np.tile(3.0 * (np.arange(GRAIN) < 5), (TILE, 1)))
