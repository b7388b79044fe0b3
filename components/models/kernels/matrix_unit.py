"""Products of float32 matrices by the matrix unit of an x86 processor (AMX), which itself multiplies bfloat16 numbers.

A float32 number is the sum of three bfloat16 ones, and of the nine products of two such sums six are added up in
float32; the other three are less than 2**-22 of the product. So results are as near the true ones as those of float32
instructions, while the unit does in one instruction what takes 16 x 16 of theirs. It takes bfloat16 numbers below
2**-126 for 0: a factor below 2**-110 loses its last bits.

A tile is 16 rows of 64 bytes: of a left factor 16 rows of 32 numbers, of a right one 32 rows of 16 columns, of a
result 16 x 16 float32. Factors are split in chunks of 32 terms: the tiles of the first, second and third parts one
behind the other, of a left factor two below each other at a time. Terms j and j + 16 of a chunk stand side by side, as
the unit multiplies and adds them in pairs.

References:
    Henry, Tang and Heinecke, Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
    Computations, 2019
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from components.compiled import kernel
from components.models.kernels.vectors import LANES, VECTOR, everywhere, load, vector
from components.processor import has

HAS_MATRIX_UNIT = has("amx-tile", "amx-bf16", "avx512f")

CHUNK = 32
"""Terms of a product that a tile holds."""
SIDE = 16
"""Rows and columns of a tile of a result."""
PARTS = 3
TILE = 64
"""Rows of a left factor that is split beforehand."""
_TILE = 1024  # bytes
_STRIP = PARTS * 2 * _TILE + 64  # 32 rows of a left factor in one chunk, and a line so that chunks share no cache lines
_DEEPEST = 4  # chunks that are multiplied at a time, so that the first-level cache holds both factors of a block
_ROWS = 128  # of a transposed left factor that are split at a time, of _TERMS
_TERMS = 64
_PRODUCTS = (0, 2), (0, 1), (1, 1), (1, 0), (0, 0), (2, 0)
"""Parts of the left and of the right factor that are multiplied."""
_ZERO = np.float32(0)

_BYTE, _WORD, _INDEX = (ir.IntType(bits) for bits in (8, 32, 64))
_BYTES = _BYTE.as_pointer()
_WORDS = ir.VectorType(_WORD, LANES)
_VECTORS = VECTOR.as_pointer()


def _call(builder: Any, name: str, *arguments: Any) -> Any:
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), arguments)


@intrinsic
def _configure(typing: Any) -> Any:
    """Gives this thread eight whole tiles."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        tiles = 8
        layout = bytes([1, 0] + [0] * 14 + [64, 0] * tiles + [0] * 16 + [16] * tiles + [0] * 8)
        constant = cgutils.global_constant(builder, "tiles", cgutils.make_bytearray(layout))
        _call(builder, "ldtilecfg", builder.bitcast(constant, _BYTES))
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def _release(typing: Any) -> Any:
    """Gives them back, so that nobody has to save them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _call(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), generate


def _memory(size: int) -> Any:
    """Makes an intrinsic that gives the address of so many bytes of the stack, until the kernel returns."""

    @intrinsic
    def memory(typing):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = cgutils.alloca_once(builder, ir.ArrayType(_BYTE, size))
            place.align = 64
            return builder.ptrtoint(place, _INDEX)

        return types.intp(), generate

    return memory


_LEFT, _RIGHT = _ROWS // (2 * SIDE) * _TERMS // CHUNK * _STRIP, PARTS * 2 * _TERMS // CHUNK * _TILE
_factors = _memory(_LEFT + 2 * _RIGHT)


@intrinsic
def _place(typing: Any, array: Any, at: Any) -> Any:
    """The address of ``array[at]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(builder.gep(data, [arguments[1]]), _INDEX)

    return types.intp(array, types.intp), generate


@intrinsic
def _gather(typing: Any, address: Any, step: Any, count: Any) -> Any:
    """The floats at an address and each ``step`` bytes further; 0 from the ``count``-th on, which may be any number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = ir.VectorType(_INDEX, LANES)
        numbers = ir.Constant(lanes, list(range(LANES)))

        def everywhere(value: Any) -> Any:
            one = builder.insert_element(ir.Constant(lanes, ir.Undefined), value, _WORD(0))
            return builder.shuffle_vector(one, ir.Constant(lanes, ir.Undefined), ir.Constant(_WORDS, [0] * LANES))

        first, across, limit = map(everywhere, arguments)
        mask = builder.icmp_signed("<", numbers, limit)
        places = builder.inttoptr(
            builder.add(first, builder.mul(across, numbers)), ir.VectorType(ir.FloatType().as_pointer(), LANES)
        )
        kind = ir.FunctionType(VECTOR, [places.type, _WORD, mask.type, VECTOR])
        name = f"llvm.masked.gather.v{LANES}f32.v{LANES}p0f32"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, [places, _WORD(4), mask, ir.Constant(VECTOR, [0.0] * LANES)])

    return vector(types.intp, types.intp, types.intp), generate


def _put_parts(builder: Any, first: Any, second: Any, to: Any, step: Any) -> None:
    """IR: writes the three parts of two vectors, side by side, to an address and ``step`` bytes further each."""
    half, upper, shift = (ir.Constant(_WORDS, [number] * LANES) for number in (0x8000, 0xFFFF0000, 16))
    for part in range(PARTS):
        words = []
        for rest in (first, second):
            bits = builder.bitcast(rest, _WORDS)
            # Rounded to the nearest; the last part has no more than eight bits.
            words.append(bits if part == PARTS - 1 else builder.and_(builder.add(bits, half), upper))
        if part < PARTS - 1:
            first, second = (
                builder.fsub(rest, builder.bitcast(bits, VECTOR))
                for rest, bits in zip((first, second), words, strict=True)
            )
        side_by_side = builder.or_(builder.lshr(words[0], shift), builder.and_(words[1], upper))
        address = builder.inttoptr(builder.add(to, builder.mul(step, _INDEX(part))), _WORDS.as_pointer())
        builder.store(side_by_side, address, align=64)


@intrinsic
def _split(typing: Any, first: Any, second: Any, to: Any, step: Any) -> Any:
    """Writes the three parts of two vectors, side by side, to an address and ``step`` bytes further each."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _put_parts(builder, *arguments)
        return context.get_dummy_value()

    return types.void(vector, vector, types.intp, types.intp), generate


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """IR: the columns of as many vectors as each has lanes."""
    distance = LANES // 2
    while distance:
        pick = [lane if lane & distance == 0 else LANES + (lane ^ distance) for lane in range(LANES)]
        pick_other = [lane | distance if lane & distance == 0 else LANES + lane for lane in range(LANES)]
        fresh = list(rows)
        for row in range(LANES):
            if row & distance == 0:
                pair = rows[row], rows[row | distance]
                fresh[row] = builder.shuffle_vector(*pair, ir.Constant(_WORDS, pick))
                fresh[row | distance] = builder.shuffle_vector(*pair, ir.Constant(_WORDS, pick_other))
        rows = fresh
        distance //= 2
    return rows


@intrinsic
def _split_transposed(typing: Any, array: Any, at: Any, step: Any, count: Any, to: Any) -> Any:
    """Writes the tiles of a left factor whose terms are rows of memory, ``step`` apart; 0 from the ``count``-th on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, place, across, left, begin = arguments
        data = context.make_array(signature.args[0])(context, builder, values).data
        zero = ir.Constant(VECTOR, [0.0] * LANES)
        halves = []
        for half in range(2):
            rows = []
            for lane in range(LANES):
                number = _INDEX(half * LANES + lane)
                there = builder.icmp_signed("<", number, left)
                # A row that is not there is read at the first one's place.
                offset = builder.add(place, builder.select(there, builder.mul(across, number), _INDEX(0)))
                row = builder.load(builder.bitcast(builder.gep(data, [offset]), _VECTORS), align=4)
                rows.append(builder.select(there, row, zero))
            halves.append(_transposed(builder, rows))
        for row, (first, second) in enumerate(zip(*halves, strict=True)):
            _put_parts(builder, first, second, builder.add(begin, _INDEX(row * 64)), _INDEX(2 * _TILE))
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, types.intp, types.intp), generate


def _block(down: int, across: int) -> Any:
    """Makes an intrinsic that computes ``down`` x ``across`` tiles of a product: 2 x 2, 1 x 2, 4 x 1 or 1 x 1.

    Its arguments are whether to add to the result; of the left factor the address and the bytes from one strip and
    from one chunk to the next; the address of the right factor; how many chunks; and of the result the address and the
    bytes from row to row. Vector instructions that find their place between those of the matrix unit take no time: so
    2 x 2 tiles split pairs of rows of another right factor beside, of two vectors each, one after each product of
    parts: the last arguments are where its rows are, the bytes from row to row, where its tiles are, and the number of
    the first pair and of the one to end before.
    """
    beside = down == across == 2

    @intrinsic
    def block(typing, add, a, a_strip, a_chunk, b, chunks, c, c_row, rows, row_step, tiles, pair, last):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            added, a_first, strip, chunk, b_first, count, c_first, row, *others = arguments
            results = [(v, h) for v in range(down) for h in range(across)]
            tiles_of_a = list(range(len(results), len(results) + min(down, 8 - len(results) - across)))
            tiles_of_b = list(range(8 - across, 8))

            def move(name: str, tile: int, address: Any, step: Any) -> None:
                _call(builder, name, _BYTE(tile), builder.inttoptr(address, _BYTES), step)

            def of_result(v: int, h: int) -> Any:
                down_there = builder.mul(row, _INDEX(SIDE * v))
                return builder.add(c_first, builder.add(down_there, _INDEX(h * SIDE * 4)))

            def split_pair(number: Any) -> None:
                source, step, to, _, end = others
                with builder.if_then(builder.icmp_signed("<", number, end)):
                    inside = builder.and_(number, _INDEX(SIDE - 1))
                    chunk_there = builder.lshr(number, _INDEX(SIDE.bit_length() - 1))
                    term = builder.add(builder.mul(chunk_there, _INDEX(CHUNK)), inside)
                    one = builder.add(source, builder.mul(term, step))
                    other = builder.add(one, builder.mul(step, _INDEX(SIDE)))
                    tile = builder.mul(chunk_there, _INDEX(PARTS * 2 * _TILE))
                    place = builder.add(to, builder.add(tile, builder.mul(inside, _INDEX(64))))
                    for h in range(2):
                        first, second = [
                            builder.load(builder.inttoptr(builder.add(row_at, _INDEX(h * 64)), _VECTORS), align=4)
                            for row_at in (one, other)
                        ]
                        _put_parts(builder, first, second, builder.add(place, _INDEX(h * _TILE)), _INDEX(2 * _TILE))

            with builder.if_else(added) as (then, otherwise):
                with then:
                    for tile, place in enumerate(results):
                        move("tileloadd64", tile, of_result(*place), row)
                with otherwise:
                    for tile in range(len(results)):
                        _call(builder, "tilezero", _BYTE(tile))
            with cgutils.for_range(builder, count) as loop:
                a_now = builder.add(a_first, builder.mul(loop.index, chunk))
                b_now = builder.add(b_first, builder.mul(loop.index, _INDEX(PARTS * across * _TILE)))
                held: tuple[int | None, int | None] = None, None
                # Small products first; from one to the next a factor stays where it is, if there are tiles enough.
                for turn, (of_a, of_b) in enumerate(_PRODUCTS):
                    if held[1] != of_b:
                        for h, tile in enumerate(tiles_of_b):
                            place = builder.add(b_now, _INDEX((of_b * across + h) * _TILE))
                            move("tileloadd64", tile, place, _INDEX(64))
                    for v in range(down):
                        tile_of_a = tiles_of_a[v % len(tiles_of_a)]
                        if held[0] != of_a or len(tiles_of_a) < down:
                            inside = _INDEX((2 * of_a + v % 2) * _TILE)
                            place = builder.add(a_now, builder.add(builder.mul(strip, _INDEX(v // 2)), inside))
                            move("tileloadd64", tile_of_a, place, _INDEX(64))
                        for h, tile_of_b in enumerate(tiles_of_b):
                            tiles = results.index((v, h)), tile_of_a, tile_of_b
                            _call(builder, "tdpbf16ps", *map(_BYTE, tiles))
                    held = of_a, of_b
                    if beside:
                        before = builder.mul(loop.index, _INDEX(len(_PRODUCTS)))
                        split_pair(builder.add(others[3], builder.add(before, _INDEX(turn))))
            for tile, place in enumerate(results):
                move("tilestored64", tile, of_result(*place), row)
            return context.get_dummy_value()

        index = types.intp
        return types.void(types.boolean, *[index] * 12), generate

    return block


_two_by_two, _one_by_two, _four_by_one, _one_by_one = _block(2, 2), _block(1, 2), _block(4, 1), _block(1, 1)


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
            row, a, c, split = row + 2 * SIDE, a + a_strip, c + 2 * down, split + chunks * len(_PRODUCTS)
        if row < rows:
            _one_by_two(add, a, a_strip, a_chunk, b, chunks, c, c_row, 0, 0, 0, 0, 0)
    else:
        while row + 4 * SIDE <= rows:
            _four_by_one(add, a, a_strip, a_chunk, b, chunks, c, c_row, 0, 0, 0, 0, 0)
            row, a, c = row + 4 * SIDE, a + 2 * a_strip, c + 4 * down
        while row < rows:
            _one_by_one(add, a + row % (2 * SIDE) // SIDE * _TILE, a_strip, a_chunk, b, chunks, c, c_row, 0, 0, 0, 0, 0)
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
    to = _place(panels, 0)
    for first in range(0, columns, 2 * SIDE):
        tiles = -(-min(columns - first, 2 * SIDE) // SIDE)
        for above in range(0, rows, CHUNK):
            for column in range(first, first + tiles * SIDE, SIDE):
                for row in range(above, above + SIDE):
                    place, count, under = matrix + row * row_step + column * column_step, columns - column, row + SIDE
                    _split(
                        _gather(place, column_step, count if row < rows else 0),
                        _gather(place + SIDE * row_step, column_step, count if under < rows else 0),
                        to + (row - above) * 64,
                        tiles * _TILE,
                    )
                to += _TILE
            to += (PARTS - 1) * tiles * _TILE


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
    to = _place(room, at) + row // (2 * SIDE) * _STRIP + row % (2 * SIDE) * 64
    for term in range(0, width, CHUNK):
        second = load(a, a_at + term + SIDE) if term + SIDE < width else everywhere(_ZERO)
        _split(load(a, a_at + term), second, to, 2 * _TILE)
        to += TILE // (2 * SIDE) * _STRIP


@kernel
def multiply(add, a, a_at, a_row, split, depth, panels, at, panel_rows, columns, c, c_at, c_row):  # type: ignore[no-untyped-def]
    """As :func:`components.models.kernels.products.multiply`."""
    _configure()
    left, result, across = _place(a, split), _place(c, c_at), 4 * c_row
    chunk_size = TILE // (2 * SIDE) * _STRIP
    all_chunks = -(-depth // CHUNK)
    parts = -(-all_chunks // _DEEPEST)
    for part in range(parts):
        above, below = all_chunks * part // parts, all_chunks * (part + 1) // parts
        for row in range(0, TILE, 4 * SIDE):
            strip = left + above * chunk_size + row // (2 * SIDE) * _STRIP
            for first in range(0, columns, 2 * SIDE):
                width = min(columns - first, 2 * SIDE)
                b = _place(panels, at + panel_size(panel_rows, first) + panel_size(above * CHUNK, width))
                _blocks(
                    add or part > 0, strip, _STRIP, chunk_size, 4 * SIDE, b, width, below - above,
                    result + row * across + first * 4, across, 0, 0, 0, 0,
                )  # fmt: skip
    _release()


@kernel
def _split_right(b, at, b_row, terms, width, to, first, last):  # type: ignore[no-untyped-def]
    """Splits of a panel of a right factor the pairs of rows from ``first`` to before ``last``."""
    for number in range(first, last):
        term = (number >> 4) * CHUNK + (number & 15)
        one = at + term * b_row
        place = to + (number >> 4) * PARTS * width * 64 + (number & 15) * 64
        for column in range(0, width, SIDE):
            _split(
                load(b, one + column) if term < terms else everywhere(_ZERO),
                load(b, one + SIDE * b_row + column) if term + SIDE < terms else everywhere(_ZERO),
                place + column * 64,
                width * 64,
            )


@kernel
def add_transposed(a, a_at, a_row, rows, depth, b, b_at, b_row, columns, c, c_at, c_row):  # type: ignore[no-untyped-def]
    """As :func:`components.models.kernels.products.add_transposed`."""
    _configure()
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
                    _split_transposed(a, source, a_row, terms - term, to)
            source, split = b_at + above * b_row, 0
            for first in range(0, columns, 2 * SIDE):
                width = min(columns - first, 2 * SIDE)
                _split_right(b, source + first, b_row, terms, width, right, split, pairs)
                following = first + 2 * SIDE
                wanted = pairs if terms == pairs * 2 and following + 2 * SIDE <= columns else 0
                result = _place(c, c_at + begin * c_row + first)
                split = _blocks(
                    True, left, strip, _STRIP, count, right, width, chunks, result, c_row * 4,
                    _place(b, source + following), b_row * 4, other, wanted,
                )  # fmt: skip
                right, other = other, right
    _release()
