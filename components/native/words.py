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

LOW_HALF = np.uint64(0xFFFFFFFF)
NOT_FINITE = np.uint64(0x7F800000)
"""The exponent bits of an infinite or NaN float32."""
_U64 = ir.IntType(64)


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
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """Number of zero bits below the lowest one bit; 64 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

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


@kernel
def copy_bytes(source, begin, end, out, at):  # type: ignore[no-untyped-def]
    """Copies ``source[begin:end]`` to ``out[at:]``; returns its end. May touch seven more bytes of both."""
    for i in range(0, end - begin, 8):
        store_u64(out, at + i, load_u64(source, begin + i))
    return at + end - begin
