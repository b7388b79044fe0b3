"""Machine words in byte arrays: loads and stores at any address, and the bit tricks varints need.

No function checks bounds; the caller keeps SLACK bytes after the range it reads or writes.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from components.native.compiled import kernel
from components.native.processor import has

SLACK = 16
HAS_CRC32C = has("crc32")
_MICROCODED_BIT_MOVES = ("bdver4", "znver1", "znver2")  # these take hundreds of cycles for one
HAS_BIT_MOVES = has("bmi2") and llvmlite.binding.get_host_cpu_name() not in _MICROCODED_BIT_MOVES

HAS_BYTE_COMPRESSION = has("avx512vbmi2", "avx512bw")
HAS_BYTE_PERMUTATION = HAS_BYTE_COMPRESSION and HAS_BIT_MOVES and has("avx512vbmi")

VARINTS = 16
LOW_HALF = np.uint64(0xFFFFFFFF)
NOT_FINITE = np.uint64(0x7F800000)
"""The exponent bits of an infinite or NaN float32."""
_U8, _U32, _U64 = (ir.IntType(bits) for bits in (8, 32, 64))


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _U64.as_pointer())


def _instruction(builder: Any, name: str) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(_U64, [_U64, _U64]), name)


@intrinsic
def load_u64(typing_context: Any, data: Any, index: Any) -> Any:
    """The eight bytes at ``data[index]`` as a little-endian word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *arguments), align=1)

    return types.uint64(data, types.intp), generate


@intrinsic
def store_u64(typing_context: Any, data: Any, index: Any, word: Any) -> Any:
    """Writes a little-endian word to the eight bytes at ``data[index]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, at, value = arguments
        builder.store(value, _address(context, builder, signature.args[0], array, at), align=1)
        return context.get_dummy_value()

    return types.void(data, types.intp, types.uint64), generate


@intrinsic
def prefetch(typing_context: Any, data: Any, index: Any) -> Any:
    """Prefetches the cache line at ``data[index]``; the index may be out of bounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        address = builder.bitcast(_address(context, builder, signature.args[0], *arguments), byte)
        builder.call(function, [address, word(0), word(3), word(1)])  # to read, to all caches, data
        return context.get_dummy_value()

    return types.void(data, types.intp), generate


@intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Number of zero bits below the lowest one bit; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def ones(typing_context: Any, word: Any) -> Any:
    """Number of one bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def leading_zeros(typing_context: Any, word: Any) -> Any:
    """Number of zero bits above the highest one bit; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def deposit_u64(typing_context: Any, word: Any, mask: Any) -> Any:
    """The low bits of ``word``, spread to where ``mask`` has ones; only where HAS_BIT_MOVES."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(_instruction(builder, "llvm.x86.bmi.pdep.64"), arguments)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def extract_u64(typing_context: Any, word: Any, mask: Any) -> Any:
    """The bits of ``word`` where ``mask`` has ones, side by side; only where HAS_BIT_MOVES."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(_instruction(builder, "llvm.x86.bmi.pext.64"), arguments)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def crc32c_u64(typing_context: Any, crc: Any, word: Any) -> Any:
    """One step of the CPU's CRC32C instruction over eight bytes; only where HAS_CRC32C."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(_instruction(builder, "llvm.x86.sse42.crc32.64.64"), arguments)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def compress_varints(typing_context: Any, values: Any, index: Any, count: Any, limit: Any, out: Any, at: Any) -> Any:
    """Writes up to VARINTS values as varints; only where HAS_BYTE_COMPRESSION.

    Each value is spread over the four bytes of a lane; one instruction then compresses the used bytes.

    Args:
        values: int32 or int64; ``values[index]`` is the first of ``count``.
        limit: the largest allowed value, below 2**28; the smallest is 0.
        out: uint8; 64 bytes from ``at`` on may be overwritten.

    Returns:
        The bytes written, or -1 if a value is out of range.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, first, number, most, to, destination = arguments
        data = context.make_array(signature.args[0])(context, builder, array).data
        element = data.type.pointee
        source, lanes, chosen, rows = (ir.VectorType(kind, VARINTS) for kind in (element, _U32, ir.IntType(1), _U64))
        many = ir.VectorType(_U8, 4 * VARINTS)
        masks = ir.VectorType(ir.IntType(1), 4 * VARINTS)

        def everywhere(kind: Any, value: Any) -> Any:
            return ir.Constant(kind, [value] * kind.count)

        def spread(kind: Any, value: Any) -> Any:
            empty = ir.Constant(kind, ir.Undefined)
            return builder.shuffle_vector(
                builder.insert_element(empty, value, _U32(0)), empty, ir.Constant(lanes, [0] * VARINTS)
            )

        inside = builder.icmp_unsigned("<", ir.Constant(rows, list(range(VARINTS))), spread(rows, number))
        address = builder.bitcast(builder.gep(data, [first]), source.as_pointer())
        kind = ir.FunctionType(source, [address.type, _U32, chosen, source])
        masked_load = cgutils.get_or_insert_function(
            builder.module, kind, f"llvm.masked.load.v{VARINTS}i{element.width}.p0v{VARINTS}i{element.width}"
        )
        read = builder.call(masked_load, [address, _U32(element.width // 8), inside, everywhere(source, 0)])
        bound = builder.trunc(most, element) if element.width < 64 else most
        outside = builder.icmp_unsigned(">", read, spread(source, bound))
        refused = builder.icmp_unsigned("!=", builder.bitcast(outside, ir.IntType(VARINTS)), ir.IntType(VARINTS)(0))
        value = builder.trunc(read, lanes) if element.width > 32 else read

        groups, more, needed = everywhere(lanes, 0), everywhere(lanes, 0), everywhere(lanes, 0xFF)
        for byte in range(4):
            shifted = builder.shl(value, everywhere(lanes, byte)) if byte else value
            groups = builder.or_(groups, builder.and_(shifted, everywhere(lanes, 0x7F << 8 * byte)))
            if byte:
                reaches = builder.icmp_unsigned(">=", value, everywhere(lanes, 1 << 7 * byte))
                zero = everywhere(lanes, 0)
                more = builder.or_(more, builder.select(reaches, everywhere(lanes, 0x80 << 8 * (byte - 1)), zero))
                needed = builder.or_(needed, builder.select(reaches, everywhere(lanes, 0xFF << 8 * byte), zero))
        needed = builder.select(inside, needed, everywhere(lanes, 0))
        keep = builder.icmp_unsigned("!=", builder.bitcast(needed, many), everywhere(many, 0))
        compress = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(many, [many, many, masks]),
            f"llvm.x86.avx512.mask.compress.v{4 * VARINTS}i8",
        )
        together = builder.call(compress, [builder.bitcast(builder.or_(groups, more), many), everywhere(many, 0), keep])
        target = builder.bitcast(_address(context, builder, signature.args[4], to, destination), many.as_pointer())
        builder.store(together, target, align=1)
        size = builder.ctpop(builder.bitcast(keep, ir.IntType(4 * VARINTS)))
        return builder.select(refused, _U64(-1), size)

    return types.intp(values, types.intp, types.intp, types.intp, out, types.intp), generate


@intrinsic
def expand_varints(typing_context: Any, data: Any, index: Any, limit: Any, out: Any, at: Any) -> Any:
    """Reads VARINTS varints at once; only where HAS_BYTE_PERMUTATION.

    Compresses the positions of the bytes that end a varint, computes from them the source of each byte of a lane, and
    permutes the bytes with one instruction.

    Args:
        data: uint8, readable for 64 bytes from ``index`` on.
        limit: the largest allowed value.
        out: int32; receives the values from ``at`` on, even if out of range.

    Returns:
        The bytes read, or 0 if a value takes more than four bytes or is out of range.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, first, most, to, destination = arguments
        width = 4 * VARINTS
        many, lanes = ir.VectorType(_U8, width), ir.VectorType(_U32, VARINTS)
        halves = ir.VectorType(ir.IntType(16), width // 2)

        def instruction(name: str, result: Any, *args: Any) -> Any:
            kind = ir.FunctionType(result, [value.type for value in args])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

        def repeated(kind: Any, *values: int) -> Any:
            return ir.Constant(kind, list(values) * (kind.count // len(values)))

        def everywhere(number: Any) -> Any:
            empty = ir.Constant(lanes, ir.Undefined)
            filled = builder.insert_element(empty, number, _U32(0))
            return builder.shuffle_vector(filled, empty, repeated(lanes, 0))

        def by_byte(values: Any) -> Any:
            """Broadcasts the lowest byte of each lane to all four."""
            order = ir.Constant(ir.VectorType(_U32, width), [byte // 4 * 4 for byte in range(width)])
            read = builder.bitcast(values, many)
            return builder.shuffle_vector(read, read, order)

        source = builder.bitcast(_address(context, builder, signature.args[0], array, first), many.as_pointer())
        read = builder.load(source, align=1)
        last = builder.icmp_signed(">=", read, repeated(many, 0))
        ends = builder.bitcast(last, _U64)
        sixteenth = builder.call(_instruction(builder, "llvm.x86.bmi.pdep.64"), [_U64(1 << (VARINTS - 1)), ends])
        size = builder.add(builder.cttz(sixteenth, ir.Constant(ir.IntType(1), 0)), _U64(1))

        together = instruction(
            f"llvm.x86.avx512.mask.compress.v{width}i8", many,
            ir.Constant(many, list(range(width))), repeated(many, 0), last,
        )  # fmt: skip
        order = ir.Constant(lanes, list(range(VARINTS)))
        end = builder.zext(builder.shuffle_vector(together, together, order), lanes)
        before = builder.shuffle_vector(
            end, repeated(lanes, 0xFFFFFFFF), ir.Constant(lanes, [VARINTS, *range(VARINTS - 1)])
        )
        begin = builder.add(before, repeated(lanes, 1))
        offsets = builder.add(by_byte(begin), repeated(many, 0, 1, 2, 3))
        moved = instruction("llvm.x86.avx512.permvar.qi.512", many, read, offsets)
        own = builder.icmp_unsigned("<=", offsets, by_byte(end))
        groups = builder.select(own, builder.and_(moved, repeated(many, 0x7F)), repeated(many, 0))
        pairs = instruction("llvm.x86.avx512.pmaddubs.w.512", halves, repeated(many, 1, 128), groups)
        values = instruction("llvm.x86.avx512.pmaddw.d.512", lanes, pairs, repeated(halves, 1, 1 << 14))
        target = builder.bitcast(_address(context, builder, signature.args[3], to, destination), lanes.as_pointer())
        builder.store(values, target, align=4)

        long = builder.icmp_unsigned(">", builder.sub(end, begin), repeated(lanes, 3))
        above = builder.icmp_unsigned(">", values, everywhere(builder.trunc(most, _U32)))
        wrong = builder.bitcast(builder.or_(long, above), ir.IntType(VARINTS))
        good = builder.and_(
            builder.icmp_unsigned("==", wrong, ir.IntType(VARINTS)(0)), builder.icmp_unsigned("!=", sixteenth, _U64(0))
        )
        return builder.select(good, size, _U64(0))

    return types.intp(data, types.intp, types.uint64, out, types.intp), generate


@kernel
def copy_bytes(source, begin, end, out, at):  # type: ignore[no-untyped-def]
    """Copies ``source[begin:end]`` to ``out[at:]``; returns its end. May touch seven more bytes of both."""
    for i in range(0, end - begin, 8):
        store_u64(out, at + i, load_u64(source, begin + i))
    return at + end - begin
