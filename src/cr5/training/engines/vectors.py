"""Numbers in vector registers, for compiled loops, and the memory that such loops read."""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numpy.lib.stride_tricks import as_strided

from cr5._typing import Array


class _Lanes(numba.types.Type):  # type: ignore[misc]
    """Several numbers in vector registers."""

    def __init__(self, dtype: Any, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(name=f"Lanes({dtype}, {count})")


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, lanes: _Lanes) -> None:
        number = manager.lookup(lanes.dtype).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(number, lanes.count))


@intrinsic  # type: ignore[untyped-decorator]
def zero_lanes(_: Any, like: Any, size: Any) -> Any:
    """As many zeros of the dtype of ``like`` as ``size`` bytes hold."""
    if not isinstance(size, numba.types.IntegerLiteral):
        return None
    lanes = _Lanes(like.dtype, size.literal_value * 8 // like.dtype.bitwidth)
    return lanes(like, size), lambda context, builder, signature, arguments: context.get_constant_null(lanes)


def _address(context: Any, builder: Any, lanes: Any, kind: Any, values: Any, place: Any) -> Any:
    data = context.make_array(kind)(context, builder, values).data
    return builder.bitcast(builder.gep(data, [place]), context.get_value_type(lanes).as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def load(_: Any, lanes: Any, values: Any, place: Any) -> Any:
    """As many numbers as ``lanes`` has: values[place], values[place + 1], ..."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, lanes, values, *arguments[1:])
        return builder.load(address, align=values.dtype.bitwidth // 8)

    return lanes(lanes, values, numba.types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(_: Any, lanes: Any, values: Any, place: Any) -> Any:
    """values[place], values[place + 1], ... = lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, lanes, values, *arguments[1:])
        builder.store(arguments[0], address, align=values.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return numba.types.void(lanes, values, numba.types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def multiply_add(_: Any, a: Any, v: Any, u: Any) -> Any:
    """a v + u for a number a and numbers or lanes v and u, rounded once where the processor can."""
    number, many = (v.dtype, v.count) if isinstance(v, _Lanes) else (v, 0)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, v, u = arguments
        if many:
            empty, zero = ir.Constant(v.type, ir.Undefined), ir.Constant(ir.IntType(32), 0)
            first = builder.insert_element(empty, a, zero)
            a = builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(zero.type, many), None))
        name = f"llvm.fmuladd.{f'v{many}' if many else ''}f{number.bitwidth}"
        kind = ir.FunctionType(v.type, [v.type] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, v, u])

    return v(number, v, v), generate


def has_whole_rows(A: Array) -> bool:
    return A.strides[1] == A.itemsize and A.strides[0] >= A.shape[1] * A.itemsize and A.strides[0] % A.itemsize == 0


def flat(A: Array) -> tuple[Array, int]:
    """A's memory from its first row to its last as one dimension, and the step from one row to the next."""
    step = A.strides[0] // A.itemsize
    if not len(A):
        return np.empty(0, A.dtype), step
    return as_strided(A, ((len(A) - 1) * step + A.shape[1],), (A.itemsize,)), step


def aligned(size: int) -> Array:
    """Bytes that begin with a cache line."""
    buffer = np.empty(size + 64, np.uint8)
    return buffer[-buffer.ctypes.data % 64 :][:size]
