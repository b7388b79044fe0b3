"""The matrix unit of an x86 processor (AMX) in kernels: split float32 numbers, multiply tiles of them, add these up.

The unit itself multiplies bfloat16 numbers. A float32 number is the sum of three of these, and of the nine products of
two such sums six are added up in float32; the other three are less than 2**-22 of the product. So results are as near
the true ones as those of float32 instructions, while the unit does in one instruction what takes 16 x 16 of theirs. It
takes bfloat16 numbers below 2**-126 for 0: a factor below 2**-110 loses its last bits.

A tile is 16 rows of 64 bytes: of a left factor 16 rows of 32 numbers, of a right one 32 rows of 16 columns, of a
result 16 x 16 float32. Factors are split in chunks of 32 terms: the tiles of the first, second and third parts one
behind the other, of a left factor two below each other at a time. Terms j and j + 16 of a chunk stand side by side, as
the unit multiplies and adds them in pairs. Addresses are numbers.

References:
    Henry, Tang and Heinecke, Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
    Computations, 2019
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from components.models.kernels.vectors import LANES, VECTOR, vector
from components.processor import has

HAS_MATRIX_UNIT = has("amx-tile", "amx-bf16", "avx512f")

CHUNK = 32
"""Terms of a product that a tile holds."""
SIDE = 16
"""Rows and columns of a tile of a result."""
PARTS = 3
TILE_SIZE = 1024
"""Bytes."""
PRODUCTS = (0, 2), (0, 1), (1, 1), (1, 0), (0, 0), (2, 0)
"""Parts of the left and of the right factor that are multiplied."""

_BYTE, _WORD, _INDEX = (ir.IntType(bits) for bits in (8, 32, 64))
_BYTES = _BYTE.as_pointer()
_WORDS = ir.VectorType(_WORD, LANES)
_VECTORS = VECTOR.as_pointer()


def _call(builder: Any, name: str, *arguments: Any) -> Any:
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), arguments)


@intrinsic
def configure(typing: Any) -> Any:
    """Gives this thread eight whole tiles."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        tiles = 8
        layout = bytes([1, 0] + [0] * 14 + [64, 0] * tiles + [0] * 16 + [16] * tiles + [0] * 8)
        constant = cgutils.global_constant(builder, "tiles", cgutils.make_bytearray(layout))
        _call(builder, "ldtilecfg", builder.bitcast(constant, _BYTES))
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def release(typing: Any) -> Any:
    """Gives them back, so that nobody has to save them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _call(builder, "tilerelease")
        return context.get_dummy_value()

    return types.void(), generate


def stack_memory(size: int) -> Any:
    """Makes an intrinsic that gives the address of so many bytes of the stack, until the kernel returns."""

    @intrinsic
    def memory(typing):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = cgutils.alloca_once(builder, ir.ArrayType(_BYTE, size))
            place.align = 64
            return builder.ptrtoint(place, _INDEX)

        return types.intp(), generate

    return memory


@intrinsic
def address_of(typing: Any, array: Any, at: Any) -> Any:
    """The address of ``array[at]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(builder.gep(data, [arguments[1]]), _INDEX)

    return types.intp(array, types.intp), generate


@intrinsic
def gather(typing: Any, address: Any, step: Any, count: Any) -> Any:
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
def split_two(typing: Any, first: Any, second: Any, to: Any, step: Any) -> Any:
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
def split_transposed(typing: Any, array: Any, at: Any, step: Any, count: Any, to: Any) -> Any:
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
            _put_parts(builder, first, second, builder.add(begin, _INDEX(row * 64)), _INDEX(2 * TILE_SIZE))
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, types.intp, types.intp), generate


def tiles_product(down: int, across: int) -> Any:
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
    def product(typing, add, a, a_strip, a_chunk, b, chunks, c, c_row, rows, row_step, tiles, pair, last):  # type: ignore[no-untyped-def]
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
                    tile = builder.mul(chunk_there, _INDEX(PARTS * 2 * TILE_SIZE))
                    place = builder.add(to, builder.add(tile, builder.mul(inside, _INDEX(64))))
                    for h in range(2):
                        first, second = [
                            builder.load(builder.inttoptr(builder.add(row_at, _INDEX(h * 64)), _VECTORS), align=4)
                            for row_at in (one, other)
                        ]
                        tile_there = builder.add(place, _INDEX(h * TILE_SIZE))
                        _put_parts(builder, first, second, tile_there, _INDEX(2 * TILE_SIZE))

            with builder.if_else(added) as (then, otherwise):
                with then:
                    for tile, place in enumerate(results):
                        move("tileloadd64", tile, of_result(*place), row)
                with otherwise:
                    for tile in range(len(results)):
                        _call(builder, "tilezero", _BYTE(tile))
            with cgutils.for_range(builder, count) as loop:
                a_now = builder.add(a_first, builder.mul(loop.index, chunk))
                b_now = builder.add(b_first, builder.mul(loop.index, _INDEX(PARTS * across * TILE_SIZE)))
                held: tuple[int | None, int | None] = None, None
                # Small products first; from one to the next a factor stays where it is, if there are tiles enough.
                for turn, (of_a, of_b) in enumerate(PRODUCTS):
                    if held[1] != of_b:
                        for h, tile in enumerate(tiles_of_b):
                            place = builder.add(b_now, _INDEX((of_b * across + h) * TILE_SIZE))
                            move("tileloadd64", tile, place, _INDEX(64))
                    for v in range(down):
                        tile_of_a = tiles_of_a[v % len(tiles_of_a)]
                        if held[0] != of_a or len(tiles_of_a) < down:
                            inside = _INDEX((2 * of_a + v % 2) * TILE_SIZE)
                            place = builder.add(a_now, builder.add(builder.mul(strip, _INDEX(v // 2)), inside))
                            move("tileloadd64", tile_of_a, place, _INDEX(64))
                        for h, tile_of_b in enumerate(tiles_of_b):
                            tiles = results.index((v, h)), tile_of_a, tile_of_b
                            _call(builder, "tdpbf16ps", *map(_BYTE, tiles))
                    held = of_a, of_b
                    if beside:
                        before = builder.mul(loop.index, _INDEX(len(PRODUCTS)))
                        split_pair(builder.add(others[3], builder.add(before, _INDEX(turn))))
            for tile, place in enumerate(results):
                move("tilestored64", tile, of_result(*place), row)
            return context.get_dummy_value()

        index = types.intp
        return types.void(types.boolean, *[index] * 12), generate

    return product
