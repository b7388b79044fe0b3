"""Vectors of LANES floats in kernels: load, compute, store. No bounds checks; nan propagates."""

from __future__ import annotations

import operator
import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import PrimitiveModel
from numba.extending import intrinsic, overload, register_model

from components.native.arrays import ALIGNMENT
from components.native.compiled import kernel
from components.native.processor import has

_HAS_AVX512 = has("avx512f", "avx512dq")
HAS_32_REGISTERS = _HAS_AVX512 or platform.machine() == "aarch64"
LANES = 16 if _HAS_AVX512 else 8 if has("avx") else 4

WORD = ir.IntType(32)
VECTOR = ir.VectorType(ir.FloatType(), LANES)
_WORDS = ir.VectorType(WORD, LANES)
_LINE = ALIGNMENT // 4  # floats of a cache line
_ANY = ir.Constant(VECTOR, ir.Undefined)
_CONTRACT = ("contract",)  # allows fused multiply-add


class _Vector(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"Vector{LANES}")


vector = _Vector()


@register_model(_Vector)
class _Model(PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _address(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), VECTOR.as_pointer())


@intrinsic
def load(typing: Any, array: Any, at: Any) -> Any:
    """Loads LANES floats from ``array[at]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *arguments), align=4)

    return vector(array, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, at: Any, values: Any) -> Any:
    """Stores LANES floats to ``array[at]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, pointer, value = arguments
        builder.store(value, _address(context, builder, signature.args[0], out, pointer), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def stream(typing: Any, array: Any, at: Any, values: Any) -> Any:
    """A non-temporal ``store``, for values that are read much later; the address must be aligned to a vector."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, pointer, value = arguments
        address = _address(context, builder, signature.args[0], out, pointer)
        stored = builder.store(value, address, align=4 * LANES)
        stored.set_metadata("nontemporal", builder.module.add_metadata([WORD(1)]))
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def prefetch(typing: Any, array: Any, at: Any) -> Any:
    """Prefetches the cache line of ``array[at]``, which may be out of bounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, WORD, WORD, WORD])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        address = builder.bitcast(_address(context, builder, signature.args[0], *arguments), byte)
        builder.call(function, [address, WORD(0), WORD(3), WORD(1)])  # to read, to all caches, data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@kernel
def ask(array, at, count):  # type: ignore[no-untyped-def]
    """Prefetches ``count`` floats."""
    for i in range(0, count, _LINE):
        prefetch(array, at + i)


def broadcast(builder: Any, scalar: Any) -> Any:
    """IR: a vector of one float."""
    return builder.shuffle_vector(builder.insert_element(_ANY, scalar, WORD(0)), _ANY, ir.Constant(_WORDS, [0] * LANES))


@intrinsic
def everywhere(typing: Any, value: Any) -> Any:
    """Broadcasts a float to all lanes."""
    return vector(types.float32), lambda context, builder, signature, arguments: broadcast(builder, arguments[0])


@intrinsic
def total(typing: Any, values: Any) -> Any:
    """The sum of the lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.FloatType(), [ir.FloatType(), VECTOR])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f32")
        return builder.call(function, [ir.Constant(ir.FloatType(), 0.0), arguments[0]], fastmath=("reassoc",))

    return types.float32(vector), generate


@intrinsic
def at_most(typing: Any, values: Any, limit: Any) -> Any:
    """The minimum of each lane and ``limit``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, most = arguments[0], broadcast(builder, arguments[1])
        return builder.select(builder.fcmp_ordered("<", most, value), most, value)

    return vector(vector, types.float32), generate


@intrinsic
def reciprocal(typing: Any, values: Any) -> Any:
    """1 / x of each lane, accurate to the last bit but one; x must not be 0 or beyond 2**126.

    On AVX-512 processors a division takes as long as ten products; an estimate with a Newton step takes a third.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = arguments
        one = ir.Constant(VECTOR, [1.0] * LANES)
        if not _HAS_AVX512:
            return builder.fdiv(one, value)
        kind = ir.FunctionType(VECTOR, [VECTOR, VECTOR, ir.IntType(16)])
        estimate = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.rcp14.ps.512")
        first = builder.call(estimate, [value, ir.Constant(VECTOR, ir.Undefined), ir.Constant(ir.IntType(16), -1)])
        error = builder.fsub(one, builder.fmul(value, first, flags=_CONTRACT), flags=_CONTRACT)
        return builder.fadd(first, builder.fmul(first, error, flags=_CONTRACT), flags=_CONTRACT)

    return vector(vector), generate


@intrinsic
def where_at_least(typing: Any, values: Any, others: Any, least: Any) -> Any:
    """Each lane of ``values``, or 0 where ``others`` is less than ``least``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, other, limit = arguments
        kept = builder.fcmp_unordered(">=", other, broadcast(builder, limit))
        return builder.select(kept, value, ir.Constant(VECTOR, [0.0] * LANES))

    return vector(vector, vector, types.float32), generate


@intrinsic
def count_at_least(typing: Any, values: Any, least: Any) -> Any:
    """The number of lanes that are at least ``least``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kept = builder.fcmp_ordered(">=", arguments[0], broadcast(builder, arguments[1]))
        bits = builder.bitcast(kept, ir.IntType(LANES))
        return builder.zext(builder.ctpop(bits), ir.IntType(64))

    return types.int64(vector, types.float32), generate


@intrinsic
def float_of(typing: Any, bits: Any) -> Any:
    """Bitcasts 32 bits to a float."""
    return types.float32(types.int32), lambda context, builder, signature, arguments: builder.bitcast(
        arguments[0], ir.FloatType()
    )


@intrinsic
def beside_whole(typing: Any, values: Any) -> Any:
    """x minus the nearest integer, per lane; 0 far below -126."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = arguments
        if _HAS_AVX512:
            return _masked(builder, "reduce", value, ir.Constant(WORD, 0))
        value = _bounded(builder, value)
        kind = ir.FunctionType(VECTOR, [VECTOR])
        nearest = cgutils.get_or_insert_function(builder.module, kind, f"llvm.nearbyint.v{LANES}f32")
        return builder.fsub(value, builder.call(nearest, [value]))

    return vector(vector), generate


@intrinsic
def scaled(typing: Any, values: Any, powers: Any) -> Any:
    """x * 2**n per lane, for integer n up to 127; n below -126 may count as -126."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, power = arguments
        if _HAS_AVX512:
            return _masked(builder, "scalef", value, power)
        # Adding 1.5 * 2**23 leaves the integer in the lowest bits.
        moved = builder.fadd(_bounded(builder, power), ir.Constant(VECTOR, [12582912.0] * LANES))
        shift, one = (ir.Constant(_WORDS, [number] * LANES) for number in (23, 0x3F800000))
        bits = builder.add(builder.shl(builder.bitcast(moved, _WORDS), shift), one)
        return builder.fmul(value, builder.bitcast(bits, VECTOR))

    return vector(vector, vector), generate


def _masked(builder: Any, name: str, first: Any, second: Any) -> Any:
    """IR: a masked AVX-512 instruction, with all lanes and the current rounding mode."""
    mask, rounding = ir.IntType(16), WORD
    kind = ir.FunctionType(VECTOR, [VECTOR, second.type, VECTOR, mask, rounding])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.avx512.mask.{name}.ps.512")
    return builder.call(function, [first, second, _ANY, mask(-1), rounding(4)])


def _bounded(builder: Any, value: Any) -> Any:
    """IR: the maximum of each lane and -126."""
    least = ir.Constant(VECTOR, [-126.0] * LANES)
    return builder.select(builder.fcmp_ordered("<", value, least), least, value)


def _elementwise(symbol: Callable[[Any, Any], Any], instruction: str) -> None:
    """Overloads an operator for vectors."""

    @intrinsic
    def compute(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, instruction)(*arguments, flags=_CONTRACT)

        return vector(vector, vector), generate

    @overload(symbol)
    def _(left, right):  # type: ignore[no-untyped-def]
        if left is vector and right is vector:
            return lambda left, right: compute(left, right)
        return None


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _elementwise(_symbol, _instruction)
