"""Small matrix products that stay in a processor's caches, by vector instructions.

Blocks of a result accumulate in registers: ROWS rows of one to three vectors of LANES floats. Weights, the right
factors of many products, are first packed into panels of a block's width, which ``multiply`` reads sequentially. A
panel of more than DEEPEST rows is split into parts that fit into the L1 cache. All matrices are float32.

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

from components.models.ops.host.vectors import HAS_32_REGISTERS, LANES, VECTOR, broadcast
from components.native import arrays
from components.native.compiled import kernel

GRAIN = 16
"""Columns, and rows of results, must be multiples of this."""
TILE = 64
"""Rows of a left factor of ``multiply``."""
ROWS = 8 if HAS_32_REGISTERS else 4
DEEPEST = 112

_UNROLLED = 2
_INDEX = ir.IntType(64)


@kernel
def padded(columns):  # type: ignore[no-untyped-def]
    """The next multiple of GRAIN."""
    return -(-columns // GRAIN) * GRAIN


def widened(values: np.ndarray, width: int) -> np.ndarray:
    """Zero-pads the last axis to ``width`` and flattens."""
    if values.shape[-1] < width:
        filled = np.zeros((*values.shape[:-1], width), np.float32)
        filled[..., : values.shape[-1]] = values
        values = filled
    return values.reshape(-1)


def packed(*matrices: np.ndarray) -> np.ndarray:
    """Matrices ``[rows, columns]`` packed into consecutive panels.

    Columns are zero-padded to multiples of GRAIN. Panels are aligned to arrays.ALIGNMENT, because a vector that crosses
    cache lines takes two reads.
    """
    edges = np.cumsum([len(matrix) * padded(matrix.shape[1]) for matrix in matrices])
    panels = arrays.empty([int(edges[-1])], np.float32)
    for matrix, own in zip(matrices, np.split(panels, edges[:-1]), strict=True):
        _pack(matrix, own)
    return panels


def _pack(matrix: np.ndarray, panels: np.ndarray) -> None:
    rows, columns = matrix.shape
    first, end = 0, len(panels) // rows
    while first < end:
        width = _panel(end - first)
        panel = panels[first * rows : (first + width) * rows].reshape(rows, width)
        there = max(columns - first, 0)
        panel[:, :there] = matrix[:, first : first + width]
        panel[:, there:] = 0.0
        first += width


def _block(transposed: bool) -> Any:
    """Makes an intrinsic that computes ROWS rows of one to three vectors of a product.

    Its arguments are the number of columns; whether to accumulate; array, offset and row stride (column stride if
    ``transposed``) of the left factor; array, offset and row stride of the right factor and of the result; and the
    depth of the product.
    """

    @intrinsic
    def block(typing, width, add, a, a_at, a_step, b, b_at, b_step, c, c_at, c_step, depth):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            columns, added, a_array, a_first, step, b_array, b_first, b_row, c_array, c_first, c_row, count = arguments

            def address(number: int, array: Any, first: Any) -> Any:
                return builder.gep(context.make_array(signature.args[number])(context, builder, array).data, [first])

            def vector(pointer: Any, number: int) -> Any:
                return builder.bitcast(builder.gep(pointer, [_INDEX(LANES * number)]), VECTOR.as_pointer())

            multiply_add = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(VECTOR, [VECTOR] * 3), f"llvm.fma.v{LANES}f32"
            )
            zero = ir.Constant(VECTOR, [0.0] * LANES)
            from_row, from_column = (_INDEX(1), step) if transposed else (step, _INDEX(1))
            offsets = [builder.mul(from_row, _INDEX(row)) for row in range(ROWS)]
            result = address(8, c_array, c_first)
            rows = [builder.gep(result, [builder.mul(c_row, _INDEX(row))]) for row in range(ROWS)]

            def sum_up(vectors: int) -> None:
                addresses = [vector(row, number) for row in rows for number in range(vectors)]
                begin = [builder.select(added, builder.load(slot, align=4), zero) for slot in addresses]
                # LLVM keeps these in registers.
                sums = [cgutils.alloca_once_value(builder, value) for value in begin]
                left = cgutils.alloca_once_value(builder, address(2, a_array, a_first))
                right = cgutils.alloca_once_value(builder, address(5, b_array, b_first))

                def add_products() -> None:
                    a_now, b_now = builder.load(left), builder.load(right)
                    factors = [builder.load(vector(b_now, number), align=4) for number in range(vectors)]
                    for row, offset in enumerate(offsets):
                        factor = broadcast(builder, builder.load(builder.gep(a_now, [offset])))
                        for total, other in zip(sums[row * vectors : (row + 1) * vectors], factors, strict=True):
                            builder.store(builder.call(multiply_add, [factor, other, builder.load(total)]), total)
                    builder.store(builder.gep(a_now, [from_column]), left)
                    builder.store(builder.gep(b_now, [b_row]), right)

                # Unrolling amortises the rows' address computation; transposed rows are adjacent and need none.
                unrolled = 1 if transposed else _UNROLLED
                with cgutils.for_range(builder, builder.sdiv(count, _INDEX(unrolled))):
                    for _ in range(unrolled):
                        add_products()
                if unrolled > 1:
                    with cgutils.for_range(builder, builder.srem(count, _INDEX(unrolled))):
                        add_products()
                for slot, total in zip(addresses, sums, strict=True):
                    builder.store(builder.load(total), slot, align=4)

            for vectors in (1, 2, 3):
                with builder.if_then(builder.icmp_signed("==", columns, _INDEX(LANES * vectors))):
                    sum_up(vectors)
            return context.get_dummy_value()

        index = types.intp
        return types.void(index, types.boolean, a, index, index, b, index, index, c, index, index, index), generate

    return block


_block_of, _block_of_transposed = _block(transposed=False), _block(transposed=True)


@kernel
def _panel(columns):  # type: ignore[no-untyped-def]
    """Width of the next panel; avoids panels of one vector, which cannot keep a core busy."""
    vectors = columns // LANES
    return (2 if vectors in (2, 4) else min(3, vectors)) * LANES


@kernel
def multiply(add, a, a_at, a_row, depth, panels, at, panel_rows, columns, c, c_at, c_row):  # type: ignore[no-untyped-def]
    """A product of TILE x ``depth`` and ``depth`` x ``columns``.

    Args:
        add: accumulate into the result instead of overwriting it.
        a, a_at, a_row: array, offset and row stride of the left factor.
        depth: columns of the left factor, at least 1.
        panels, at, panel_rows: array, offset and panel height of the right factor; only the first ``depth`` rows of a
            panel are used.
        columns: a multiple of GRAIN.
        c, c_at, c_row: array, offset and row stride of the result.
    """
    parts = -(-depth // DEEPEST)
    first = 0
    while first < columns:
        width = _panel(columns - first)
        for part in range(parts):
            above, below = depth * part // parts, depth * (part + 1) // parts
            b_at = at + first * panel_rows + above * width
            for row in range(0, TILE, ROWS):
                a_begin, c_begin = a_at + row * a_row + above, c_at + row * c_row + first
                added = add or part > 0
                _block_of(width, added, a, a_begin, a_row, panels, b_at, width, c, c_begin, c_row, below - above)
        first += width


@kernel
def add_transposed(a, a_at, a_row, rows, depth, b, b_at, b_row, columns, c, c_at, c_row):  # type: ignore[no-untyped-def]
    """Accumulates ``A' B`` for A of ``depth`` x ``rows`` and B of ``depth`` x ``columns``.

    Args:
        a, a_at, a_row: array, offset and row stride of A.
        rows: of the result, a multiple of GRAIN.
        depth: rows of both factors, at least 1.
        b, b_at, b_row: array, offset and row stride of B.
        columns: a multiple of GRAIN.
        c, c_at, c_row: array, offset and row stride of the result.
    """
    first = 0
    while first < columns:
        width = _panel(columns - first)
        for row in range(0, rows, ROWS):
            c_begin = c_at + row * c_row + first
            _block_of_transposed(width, True, a, a_at + row, a_row, b, b_at + first, b_row, c, c_begin, c_row, depth)
        first += width
