"""The compiler of numerical loops: Numba, with a cache wherever there is a folder for one."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, overload

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic


@overload
def compiled(function: Callable[..., Any]) -> Any: ...
@overload
def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]: ...


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function to machine code at its first call; it runs without the global interpreter lock.

    The machine code is cached for later processes: in the folder ``NUMBA_CACHE_DIR`` if that is set, else next to the
    source, or else in the user's cache folder. Where none of them is writable, every process compiles them again.
    ``options`` are those of ``numba.njit``.
    """
    if function is None:
        return partial(compiled, **options)
    if _user_has_folder():
        with suppress(RuntimeError):  # "no locator available": none of the folders is writable
            return numba.njit(cache=True, nogil=True, **options)(function)
    return numba.njit(nogil=True, **options)(function)


def _user_has_folder() -> bool:
    """Whether Numba can name a cache folder; without a home, it would create one that is called ~."""
    is_set = {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"} & os.environ.keys()
    return bool(is_set) or os.path.expanduser("~") != "~"  # noqa: PTH111


@intrinsic  # type: ignore[untyped-decorator]
def count_bits(_: Any, word: Any) -> Any:
    """The number of bits of a 64-bit word that are set, as int64, in compiled functions."""
    return numba.int64(numba.uint64), lambda _context, builder, _signature, arguments: builder.ctpop(arguments[0])


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_: Any, array: Any, position: Any) -> Any:
    """Load the cache line of an element of a one-dimensional array that is read soon, in compiled functions."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(array)(context, builder, arguments[0])
        element = cgutils.get_item_pointer(context, builder, array, made, [arguments[1]])
        pointer, number = builder.bitcast(element, ir.IntType(8).as_pointer()), ir.IntType(32)
        name = "llvm.prefetch.p0i8" if "*" in str(pointer.type) else "llvm.prefetch.p0"
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [pointer, number(0), number(3), number(1)])  # to read, into all caches, data
        return context.get_dummy_value()

    return numba.void(array, numba.int64), generate
