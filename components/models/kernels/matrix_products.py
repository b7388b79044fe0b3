"""Products of float32 matrices by the matrix unit of an x86 processor."""

from __future__ import annotations

import numpy as np

from components.compiled import kernel
from components.models.kernels.matrix_unit import (
    CHUNK,
    PARTS,
    PRODUCTS,
    SIDE,
    TILE_SIZE,
    address_of,
    configure,
    gather,
    release,
    split_transposed,
    split_two,
    stack_memory,
    tiles_product,
)
from components.models.kernels.vectors import everywhere, load

TILE = 64
"""Rows of a left factor that is split beforehand."""
# 32 rows of a left factor in one chunk, and a line so that chunks share no cache lines.
_STRIP = PARTS * 2 * TILE_SIZE + 64
_DEEPEST = 4  # chunks that are multiplied at a time, so that the first-level cache holds both factors of a block
_ROWS = 128  # of a transposed left factor that are split at a time, of _TERMS
_TERMS = 64
_ZERO = np.float32(0)

_LEFT, _RIGHT = _ROWS // (2 * SIDE) * _TERMS // CHUNK * _STRIP, PARTS * 2 * _TERMS // CHUNK * TILE_SIZE
_factors = stack_memory(_LEFT + 2 * _RIGHT)
_two_by_two, _one_by_two = tiles_product(2, 2), tiles_product(1, 2)
_four_by_one, _one_by_one = tiles_product(4, 1), tiles_product(1, 1)


@kernel
def _blocks(add, a, a_strip, a_chunk, rows, b, columns, chunks, c, c_row, beside, row_step, tiles, pairs):  # type: ignore[no-untyped-def]
    """One panel of a result, of 32 or 16 columns, of split factors; all by their addresses.

    Returns:
        How many of the ``pairs`` of rows have been split beside it.
    """
    row, down, split = 0, SIDE * c_row, 0
    if columns == 2 * SIDE:
        while row + 2 * SIDE <= rows:
            _two_by_two(add, a, a_strip, a_chunk, b, chunks, c, c_row, beside, row_step, tiles, split, pairs)
            row, a, c, split = row + 2 * SIDE, a + a_strip, c + 2 * down, split + chunks * len(PRODUCTS)
        if row < rows:
            _one_by_two(add, a, a_strip, a_chunk, b, chunks, c, c_row, 0, 0, 0, 0, 0)
    else:
        while row + 4 * SIDE <= rows:
            _four_by_one(add, a, a_strip, a_chunk, b, chunks, c, c_row, 0, 0, 0, 0, 0)
            row, a, c = row + 4 * SIDE, a + 2 * a_strip, c + 4 * down
        while row < rows:
            _one_by_one(
                add, a + row % (2 * SIDE) // SIDE * TILE_SIZE, a_strip, a_chunk, b, chunks, c, c_row, 0, 0, 0, 0, 0
            )
            row, c = row + SIDE, c + down
            a += a_strip if row % (2 * SIDE) == 0 else 0
    return min(split, pairs)


@kernel
def panel_size(rows, columns):  # type: ignore[no-untyped-def]
    """Floats of a packed matrix, whose columns are a multiple of SIDE."""
    return -(-rows // CHUNK) * CHUNK * columns * PARTS // 2


@kernel
def _pack(matrix, row_step, column_step, rows, columns, panels):  # type: ignore[no-untyped-def]
    """Splits a matrix that begins at an address; the steps are in bytes."""
    to = address_of(panels, 0)
    for first in range(0, columns, 2 * SIDE):
        tiles = -(-min(columns - first, 2 * SIDE) // SIDE)
        for above in range(0, rows, CHUNK):
            for column in range(first, first + tiles * SIDE, SIDE):
                for row in range(above, above + SIDE):
                    place, count, under = matrix + row * row_step + column * column_step, columns - column, row + SIDE
                    split_two(
                        gather(place, column_step, count if row < rows else 0),
                        gather(place + SIDE * row_step, column_step, count if under < rows else 0),
                        to + (row - above) * 64,
                        tiles * TILE_SIZE,
                    )
                to += TILE_SIZE
            to += (PARTS - 1) * tiles * TILE_SIZE


def pack(matrix: np.ndarray, panels: np.ndarray) -> None:
    """Fills the panels of a matrix, of :func:`panel_size`."""
    _pack(matrix.ctypes.data, *matrix.strides, *matrix.shape, panels)


@kernel
def split_size(depth):  # type: ignore[no-untyped-def]
    """Floats of a split left factor."""
    return -(-depth // CHUNK) * TILE // (2 * SIDE) * _STRIP // 4


@kernel
def split_row(a, a_at, width, room, at, row):  # type: ignore[no-untyped-def]
    """As :func:`components.models.kernels.products.split_row`."""
    to = address_of(room, at) + row // (2 * SIDE) * _STRIP + row % (2 * SIDE) * 64
    for term in range(0, width, CHUNK):
        second = load(a, a_at + term + SIDE) if term + SIDE < width else everywhere(_ZERO)
        split_two(load(a, a_at + term), second, to, 2 * TILE_SIZE)
        to += TILE // (2 * SIDE) * _STRIP


@kernel
def multiply(add, a, a_at, a_row, split, depth, panels, at, panel_rows, columns, c, c_at, c_row):  # type: ignore[no-untyped-def]
    """As :func:`components.models.kernels.products.multiply`."""
    configure()
    left, result, across = address_of(a, split), address_of(c, c_at), 4 * c_row
    chunk_size = TILE // (2 * SIDE) * _STRIP
    all_chunks = -(-depth // CHUNK)
    parts = -(-all_chunks // _DEEPEST)
    for part in range(parts):
        above, below = all_chunks * part // parts, all_chunks * (part + 1) // parts
        for row in range(0, TILE, 4 * SIDE):
            strip = left + above * chunk_size + row // (2 * SIDE) * _STRIP
            for first in range(0, columns, 2 * SIDE):
                width = min(columns - first, 2 * SIDE)
                b = address_of(panels, at + panel_size(panel_rows, first) + panel_size(above * CHUNK, width))
                _blocks(
                    add or part > 0, strip, _STRIP, chunk_size, 4 * SIDE, b, width, below - above,
                    result + row * across + first * 4, across, 0, 0, 0, 0,
                )  # fmt: skip
    release()


@kernel
def _split_right(b, at, b_row, terms, width, to, first, last):  # type: ignore[no-untyped-def]
    """Splits of a panel of a right factor the pairs of rows from ``first`` to before ``last``."""
    for number in range(first, last):
        term = (number >> 4) * CHUNK + (number & 15)
        one = at + term * b_row
        place = to + (number >> 4) * PARTS * width * 64 + (number & 15) * 64
        for column in range(0, width, SIDE):
            split_two(
                load(b, one + column) if term < terms else everywhere(_ZERO),
                load(b, one + SIDE * b_row + column) if term + SIDE < terms else everywhere(_ZERO),
                place + column * 64,
                width * 64,
            )


@kernel
def add_transposed(a, a_at, a_row, rows, depth, b, b_at, b_row, columns, c, c_at, c_row):  # type: ignore[no-untyped-def]
    """As :func:`components.models.kernels.products.add_transposed`."""
    configure()
    left = _factors()
    right, other = left + _LEFT, left + _LEFT + _RIGHT
    for above in range(0, depth, _TERMS):
        terms = min(_TERMS, depth - above)
        chunks = -(-terms // CHUNK)
        strip, pairs = chunks * _STRIP, chunks * SIDE
        for begin in range(0, rows, _ROWS):
            count = min(_ROWS, rows - begin)
            for row in range(0, count, SIDE):
                for term in range(0, terms, CHUNK):
                    source = a_at + (above + term) * a_row + begin + row
                    to = left + row // (2 * SIDE) * strip + row % (2 * SIDE) * 64 + term // CHUNK * _STRIP
                    split_transposed(a, source, a_row, terms - term, to)
            source, split = b_at + above * b_row, 0
            for first in range(0, columns, 2 * SIDE):
                width = min(columns - first, 2 * SIDE)
                _split_right(b, source + first, b_row, terms, width, right, split, pairs)
                following = first + 2 * SIDE
                wanted = pairs if terms == pairs * 2 and following + 2 * SIDE <= columns else 0
                result = address_of(c, c_at + begin * c_row + first)
                split = _blocks(
                    True, left, strip, _STRIP, count, right, width, chunks, result, c_row * 4,
                    address_of(b, source + following), b_row * 4, other, wanted,
                )  # fmt: skip
                right, other = other, right
    release()
