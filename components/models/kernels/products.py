"""Small matrix products that stay in a processor's registers and caches.

Blocks of a result are summed up in registers: ROWS rows of one to three vectors of LANES floats. What stands on the
right of a product is first packed into panels as wide as such a block (the last may be narrower), so that a block reads
it from one end to the other. At the sizes of a recurrence (64 x 192 times 192 x 288) one core reaches the speed that it
has in large products.

References:
    Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from components.compiled import kernel
from components.models.kernels.vectors import HAS_32_REGISTERS, LANES, VECTOR, broadcast, load, store

ROWS = 8 if HAS_32_REGISTERS else 4
GRAIN = 16
"""Widths have to be multiples of this."""

_MOST_VECTORS = 3
_INDEX = ir.IntType(64)


def _block(vectors: int, add: bool) -> Any:
    """Makes an intrinsic that computes ROWS rows of ``vectors`` vectors of a product.

    Its arguments are, of the left factor, the array, where it begins, and the steps from row to row and from column to
    column; of the right one the array, where it begins and the step from row to row; the same of the result; and how
    many products to sum up, at least 1. With ``add`` these are added to the result.
    """

    @intrinsic
    def block(typing, a, a_at, a_row, a_col, b, b_at, b_row, c, c_at, c_row, depth):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a_array, a_first, a_step, a_next, b_array, b_first, b_next, c_array, c_first, c_step, count = arguments

            def address(number: int, array: Any, first: Any) -> Any:
                return builder.gep(context.make_array(signature.args[number])(context, builder, array).data, [first])

            def vector(pointer: Any, number: int) -> Any:
                return builder.bitcast(builder.gep(pointer, [_INDEX(LANES * number)]), VECTOR.as_pointer())

            multiply_add = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(VECTOR, [VECTOR] * 3), f"llvm.fma.v{LANES}f32"
            )
            left, right = address(0, a_array, a_first), address(4, b_array, b_first)
            result = address(7, c_array, c_first)
            rows = [builder.gep(result, [builder.mul(c_step, _INDEX(row))]) for row in range(ROWS)]
            places = [vector(row, number) for row in rows for number in range(vectors)]
            zero = ir.Constant(VECTOR, [0.0] * LANES)
            begin = [builder.load(place, align=4) if add else zero for place in places]
            steps = [builder.mul(a_step, _INDEX(row)) for row in range(ROWS)]

            before, loop, after = (
                builder.block, builder.append_basic_block("sum"), builder.append_basic_block("summed")
            )  # fmt: skip
            builder.branch(loop)
            builder.position_at_end(loop)
            started = (_INDEX(0), left, right, *begin)
            state = [builder.phi(value.type) for value in started]
            done, a_now, b_now, *sums = state
            factors = [builder.load(vector(b_now, number), align=4) for number in range(vectors)]
            later = []
            for row in range(ROWS):
                factor = broadcast(builder, builder.load(builder.gep(a_now, [steps[row]])))
                for number in range(vectors):
                    later.append(builder.call(multiply_add, [factor, factors[number], sums[row * vectors + number]]))
            counted = builder.add(done, _INDEX(1))
            ended = (counted, builder.gep(a_now, [a_next]), builder.gep(b_now, [b_next]), *later)
            for value, first, last in zip(state, started, ended, strict=True):
                value.add_incoming(first, before)
                value.add_incoming(last, loop)
            builder.cbranch(builder.icmp_signed("<", counted, count), loop, after)
            builder.position_at_end(after)
            for place, value in zip(places, later, strict=True):
                builder.store(value, place, align=4)
            return context.get_dummy_value()

        index = types.intp
        return types.void(a, index, index, index, b, index, index, c, index, index, index), generate

    return block


_ONE, _TWO, _THREE = (_block(vectors, add=False) for vectors in (1, 2, 3))
_ADD_ONE, _ADD_TWO, _ADD_THREE = (_block(vectors, add=True) for vectors in (1, 2, 3))


_WIDE = _MOST_VECTORS * LANES


def packed(matrix: np.ndarray) -> np.ndarray:
    """A matrix ``[rows, columns]`` in panels, the columns filled up with zeros to a multiple of GRAIN."""
    rows, columns = matrix.shape
    wide = np.zeros((rows, padded(columns)), np.float32)
    wide[:, :columns] = matrix
    return np.concatenate([wide[:, first : first + _WIDE].reshape(-1) for first in range(0, wide.shape[1], _WIDE)])


def padded(columns: int) -> int:
    """The next multiple of GRAIN."""
    return -(-columns // GRAIN) * GRAIN


@kernel
def pack(matrix, at, step, rows, columns, panels, to):  # type: ignore[no-untyped-def]
    """Copies ``rows`` x ``columns`` floats from ``matrix[at]``, ``step`` from row to row, to panels at ``panels[to]``.

    Returns:
        The place behind the panels.
    """
    for first in range(0, columns, _WIDE):
        width = min(_WIDE, columns - first)
        for row in range(rows):
            for column in range(first, first + width, LANES):
                store(panels, to, load(matrix, at + row * step + column))
                to += LANES
    return to


@kernel
def multiply(add, a, a_at, a_row, a_col, rows, depth, panels, at, panel_rows, columns, c, c_at, c_row):  # type: ignore[no-untyped-def]
    """A product of ``rows`` x ``depth`` and ``depth`` x ``columns``.

    Args:
        add: to the result, instead of overwriting it.
        a, a_at, a_row, a_col: the left factor: an array, where it begins, the steps from row to row and from column to
            column.
        rows: a multiple of ROWS.
        depth: columns of the left factor, at least 1.
        panels, at, panel_rows: the right factor: an array of panels, where they begin, and the rows of a panel, of
            which the first ``depth`` are used.
        columns: a multiple of GRAIN.
        c, c_at, c_row: the result: an array, where it begins and the step from row to row.
    """
    for first in range(0, columns, _WIDE):
        width, b_at = min(_WIDE, columns - first), at + first * panel_rows
        for row in range(0, rows, ROWS):
            a_begin, c_begin = a_at + row * a_row, c_at + row * c_row + first
            if add:
                if width == _WIDE:
                    _ADD_THREE(a, a_begin, a_row, a_col, panels, b_at, width, c, c_begin, c_row, depth)
                elif width == 2 * LANES:
                    _ADD_TWO(a, a_begin, a_row, a_col, panels, b_at, width, c, c_begin, c_row, depth)
                else:
                    _ADD_ONE(a, a_begin, a_row, a_col, panels, b_at, width, c, c_begin, c_row, depth)
            elif width == _WIDE:
                _THREE(a, a_begin, a_row, a_col, panels, b_at, width, c, c_begin, c_row, depth)
            elif width == 2 * LANES:
                _TWO(a, a_begin, a_row, a_col, panels, b_at, width, c, c_begin, c_row, depth)
            else:
                _ONE(a, a_begin, a_row, a_col, panels, b_at, width, c, c_begin, c_row, depth)
