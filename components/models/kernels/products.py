"""Small matrix products that stay in a processor's caches, by its matrix unit where it has one.

Weights, which stand on the right of many products, are first packed into panels, which are read from one end to the
other. What stands on the left of them, TILE rows, is split row by row for the matrix unit. All matrices are float32.
"""

from __future__ import annotations

import numpy as np

from components import arrays
from components.compiled import kernel
from components.models.kernels import matrix_products, vector_products
from components.models.kernels.matrix_unit import HAS_MATRIX_UNIT

GRAIN = 16
"""Columns, and rows of results, have to be multiples of this."""
DEEP = 32
"""A left factor may begin at columns that are multiples of this."""
_WORTHWHILE = 20_000
"""Numbers of a result from which on the matrix unit makes up for splitting what it multiplies for no other product."""

_by_weights = matrix_products if HAS_MATRIX_UNIT else vector_products
TILE = _by_weights.TILE
panel_size, split_size = _by_weights.panel_size, _by_weights.split_size
_multiply, _split_row = _by_weights.multiply, _by_weights.split_row


@kernel
def padded(columns):  # type: ignore[no-untyped-def]
    """The next multiple of GRAIN."""
    return -(-columns // GRAIN) * GRAIN


def widened(values: np.ndarray, width: int) -> np.ndarray:
    """The last axis filled up with zeros, and flat."""
    if values.shape[-1] < width:
        filled = np.zeros((*values.shape[:-1], width), np.float32)
        filled[..., : values.shape[-1]] = values
        values = filled
    return values.reshape(-1)


def packed(*matrices: np.ndarray) -> np.ndarray:
    """Matrices ``[rows, columns]`` in panels, one behind the other, each of :func:`panel_size`.

    Columns are filled up with zeros to multiples of GRAIN. Panels begin at a multiple of arrays.ALIGNMENT, as a vector
    across the border of two cache lines is two reads.
    """
    edges = np.cumsum([panel_size(len(matrix), padded(matrix.shape[1])) for matrix in matrices])
    panels = arrays.empty([int(edges[-1])], np.float32)
    for matrix, own in zip(matrices, np.split(panels, edges[:-1]), strict=True):
        _by_weights.pack(matrix, own)
    return panels


@kernel
def split_row(a, a_at, width, room, split, row):  # type: ignore[no-untyped-def]
    """Splits a row of a left factor, where there is a matrix unit.

    Args:
        a, a_at: an array, and where the row begins.
        width: numbers of the row, a multiple of GRAIN.
        room, split: the array where :func:`multiply` reads its left factor, and where the factor's :func:`split_size`
            floats begin, with a cache line.
        row: which of the TILE rows.
    """
    _split_row(a, a_at, width, room, split, row)


@kernel
def split_at(split, term):  # type: ignore[no-untyped-def]
    """Where the left factor begins of which the first ``term`` numbers of each row are left out, a multiple of DEEP."""
    return split + split_size(term)


@kernel
def multiply(add, a, a_at, a_row, split, depth, panels, at, panel_rows, columns, c, c_at, c_row):  # type: ignore[no-untyped-def]
    """A product of TILE x ``depth`` and ``depth`` x ``columns``.

    Args:
        add: to the result, instead of overwriting it.
        a, a_at, a_row: the left factor: an array, where it begins and the step from row to row.
        split: where the same factor begins in the same array as :func:`split_row` has split it.
        depth: columns of the left factor, at least 1. Behind these it may hold any finite numbers up to a multiple of
            DEEP.
        panels, at, panel_rows: the right factor: an array of panels, where they begin, and the rows of a panel, of
            which the first ``depth`` are used, which must be all of them or a multiple of DEEP.
        columns: a multiple of GRAIN.
        c, c_at, c_row: the result: an array, where it begins and the step from row to row.
    """
    _multiply(add, a, a_at, a_row, split, depth, panels, at, panel_rows, columns, c, c_at, c_row)


@kernel
def add_transposed(a, a_at, a_row, rows, depth, b, b_at, b_row, columns, c, c_at, c_row):  # type: ignore[no-untyped-def]
    """Adds the product of the transpose of ``depth`` x ``rows`` and ``depth`` x ``columns`` to a result.

    Args:
        a, a_at, a_row: the left factor as it is stored: an array, where it begins and the step from row to row.
        rows: of the result, a multiple of GRAIN.
        depth: rows of both factors, at least 1.
        b, b_at, b_row: the right factor: an array, where it begins and the step from row to row.
        columns: a multiple of GRAIN.
        c, c_at, c_row: the result: an array, where it begins and the step from row to row.
    """
    if HAS_MATRIX_UNIT and rows * columns >= _WORTHWHILE:
        matrix_products.add_transposed(a, a_at, a_row, rows, depth, b, b_at, b_row, columns, c, c_at, c_row)
    else:
        vector_products.add_transposed(a, a_at, a_row, rows, depth, b, b_at, b_row, columns, c, c_at, c_row)
